"""CIFAR-10: 60,000 colour images, 32 x 32 points, 10 classes (A. Krizhevsky, 2009)."""

from __future__ import annotations

from pfedul.data.datasets.cifar import PUBLISHED, CifarKind, dataset_kind, layouts
from pfedul.data.datasets.files import Wanted

_TRAIN, _TEST = "data_batch_[1-5]", "test_batch"

KIND = CifarKind(
    classes=10,
    label_bytes=1,
    label_key="labels",
    train=_TRAIN,
    test=_TEST,
    # Mean and deviation of the full official training part, as widely published.
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
    wanted=Wanted(
        name="cifar10",
        files=(
            "cifar-10-binary.tar.gz or cifar-10-python.tar.gz, "
            "or their data_batch_* and test_batch files"
        ),
        published=PUBLISHED,
        layouts=layouts("cifar-10", "cifar-10-batches-bin", _TRAIN, _TEST),
    ),
)


CIFAR10 = dataset_kind(KIND, "60,000 colour images, 32 x 32 points; 10 classes")
