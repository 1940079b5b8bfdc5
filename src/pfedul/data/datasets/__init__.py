"""The data sets that users can choose, in the order in which they are listed."""

from __future__ import annotations

from pfedul.base.registry import Registry
from pfedul.data.datasets.base import DatasetKind
from pfedul.data.datasets.cifar import CIFAR10, CIFAR100
from pfedul.data.datasets.digits import DIGITS
from pfedul.data.datasets.fashion_mnist import FASHION_MNIST
from pfedul.data.datasets.femnist import FEMNIST
from pfedul.data.datasets.npz import NPZ
from pfedul.data.datasets.sentences import SENTENCES

DATASETS: Registry[DatasetKind] = Registry(
    "data set",
    *(DIGITS, FASHION_MNIST, CIFAR10, CIFAR100, FEMNIST, SENTENCES, NPZ),
    group="pfedul.datasets",
    code=True,
)
