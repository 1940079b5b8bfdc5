"""CIFAR-100: 60,000 colour images, 32 x 32 points, 100 fine classes (A. Krizhevsky, 2009)."""

from __future__ import annotations

from pfedul.data.datasets.cifar import PUBLISHED, CifarKind, dataset_kind, layouts
from pfedul.data.datasets.files import Wanted

_TRAIN, _TEST = "train", "test"

KIND = CifarKind(
    classes=100,
    # The coarse label comes first and is not used; the fine one is the label.
    label_bytes=2,
    label_key="fine_labels",
    train=_TRAIN,
    test=_TEST,
    # Mean and deviation of the full official training part, as widely published.
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
    wanted=Wanted(
        name="cifar100",
        files="cifar-100-binary.tar.gz or cifar-100-python.tar.gz, or their train and test files",
        published=PUBLISHED,
        layouts=layouts("cifar-100", "cifar-100-binary", _TRAIN, _TEST),
    ),
)


CIFAR100 = dataset_kind(KIND, "60,000 colour images, 32 x 32 points; 100 classes")
