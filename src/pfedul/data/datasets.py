"""The data sets that users can choose, in the order in which they are listed."""

from __future__ import annotations

from pfedul.data.cifar10 import CIFAR10
from pfedul.data.cifar100 import CIFAR100
from pfedul.data.dataset import DatasetKind
from pfedul.data.digits import DIGITS
from pfedul.data.fashion_mnist import FASHION_MNIST
from pfedul.data.femnist import FEMNIST
from pfedul.data.npz import NPZ
from pfedul.registry import Registry

DATASETS: Registry[DatasetKind] = Registry(
    "data set", DIGITS, FASHION_MNIST, CIFAR10, CIFAR100, FEMNIST, NPZ
)
