"""The data sets that users can choose, in the order in which they are listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfedul.base.registry import Registry

if TYPE_CHECKING:
    from pfedul.data.datasets.base import DatasetKind

DATASETS: Registry[DatasetKind] = Registry(
    "data set",
    {
        "digits": "pfedul.data.datasets.digits:DIGITS",
        "fashion-mnist": "pfedul.data.datasets.fashion_mnist:FASHION_MNIST",
        "cifar10": "pfedul.data.datasets.cifar:CIFAR10",
        "cifar100": "pfedul.data.datasets.cifar:CIFAR100",
        "femnist": "pfedul.data.datasets.femnist:FEMNIST",
        "sentences": "pfedul.data.datasets.sentences:SENTENCES",
        "npz": "pfedul.data.datasets.npz:NPZ",
    },
    group="pfedul.datasets",
    code=True,
)
