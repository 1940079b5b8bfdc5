"""CIFAR-10 and CIFAR-100: records of labels and 3 x 32 x 32 points, in two versions.

A. Krizhevsky (2009), "Learning Multiple Layers of Features from Tiny Images". The binary version is
a row of records: one or two label bytes and 3,072 bytes of points (red, green, blue planes). The
Python version is a pickled dictionary of the same. Any whole number of records is accepted, so
parts of the official files can be used.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pfedul.base.registry import NoOptions
from pfedul.data.datasets.base import Dataset, DatasetKind, Layout
from pfedul.data.datasets.files import Found, contents, find, images_from_bytes
from pfedul.data.datasets.pickles import PickledArray, read_plain_pickle
from pfedul.data.samples import TensorSamples, tensor_samples
from pfedul.errors import PfedulError

PIXELS = 3 * 32 * 32

Records = tuple[NDArray[np.uint8], NDArray[np.int64]]


@dataclass(frozen=True)
class CifarKind:
    """How one set differs from the other; `folders` are those of the binary and Python version."""

    name: str
    files: str
    folders: tuple[str, str]
    classes: int
    label_bytes: int  # the wanted label is the last one
    label_key: str
    train: str
    test: str
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


def dataset_kind(kind: CifarKind) -> DatasetKind:
    """The entry of the registry for one of the two data sets."""
    title = kind.name.replace("cifar", "cifar-")
    (binary, python), parts = kind.folders, (kind.train, kind.test)
    entry = DatasetKind(
        name=kind.name,
        summary=f"60,000 colour images, 32 x 32 points; {kind.classes} classes",
        options=NoOptions,
        files=f"{title}-binary.tar.gz or {title}-python.tar.gz, or their {kind.files} files",
        published="Alex Krizhevsky, https://www.cs.toronto.edu/~kriz/cifar.html",
        licence="none stated; the publisher asks to cite Krizhevsky (2009)",
        load=lambda search, _options: load_cifar(find(search, entry), kind),
        layouts=(
            Layout((binary,), tuple(f"{part}.bin" for part in parts), f"{title}-binary.tar.gz"),
            Layout((python,), parts, f"{title}-python.tar.gz"),
        ),
    )
    return entry


def load_cifar(found: Found, kind: CifarKind) -> Dataset:
    """Both official parts, from whichever version was found."""
    files = {name: _records(name, content, kind) for name, content in contents(found)}
    train, test = _part(files, kind.train, kind), _part(files, kind.test, kind)
    return Dataset(train, test, kind.classes, random_split=True)


def _part(files: dict[str, Records], pattern: str, kind: CifarKind) -> TensorSamples:
    names = sorted(name for name in files if fnmatch(name.removesuffix(".bin"), pattern))
    pixels = np.concatenate([files[name][0] for name in names]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([files[name][1] for name in names])
    x = images_from_bytes(pixels, kind.mean, kind.std)
    return tensor_samples(x, torch.from_numpy(labels), kind.name)


def _records(name: str, content: bytes, kind: CifarKind) -> Records:
    read = _from_binary if name.endswith(".bin") else _from_pickle
    pixels, labels = read(name, content, kind)
    if len(labels) and not 0 <= labels.min() <= labels.max() < kind.classes:
        raise PfedulError(
            f"The file {name} has labels outside 0 to {kind.classes - 1}; "
            f"check that it belongs to {kind.name}."
        )
    return pixels, labels


def _from_binary(name: str, content: bytes, kind: CifarKind) -> Records:
    size = kind.label_bytes + PIXELS
    if not content or len(content) % size:
        raise PfedulError(
            f"The file {name} has {len(content)} bytes, not a whole number of "
            f"{kind.name} records of {size} bytes; fetch it again."
        )
    table = np.frombuffer(content, np.uint8).reshape(-1, size)
    return table[:, kind.label_bytes :], table[:, kind.label_bytes - 1].astype(np.int64)


def _from_pickle(name: str, content: bytes, kind: CifarKind) -> Records:
    given = read_plain_pickle(name, content)
    entries = {_text(key): value for key, value in given.items()} if isinstance(given, dict) else {}
    pixels, labels = _values(entries.get("data")), _values(entries.get(kind.label_key))
    if pixels.dtype != np.uint8 or pixels.shape != (len(labels), PIXELS) or not len(labels):
        raise PfedulError(
            f"The file {name} does not hold 'data' of {PIXELS} bytes and '{kind.label_key}' for "
            f"each image; fetch the official {kind.name} file."
        )
    return pixels, labels.astype(np.int64)


def _text(key: Any) -> str:
    return key.decode("latin1") if isinstance(key, bytes) else str(key)


def _values(entry: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """The array or list of whole numbers in a pickle's entry; an empty one if it is neither."""
    if isinstance(entry, PickledArray):
        return entry.values
    is_list = isinstance(entry, list) and all(
        type(item) is int and 0 <= item <= _BYTE for item in entry
    )
    return np.array(entry if is_list else [], dtype=np.int64)


_BYTE = 255


# Means and deviations are those of the full official training parts, as widely published.
CIFAR10 = dataset_kind(
    CifarKind(
        name="cifar10",
        files="data_batch_* and test_batch",
        folders=("cifar-10-batches-bin", "cifar-10-batches-py"),
        classes=10,
        label_bytes=1,
        label_key="labels",
        train="data_batch_[1-5]",
        test="test_batch",
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
    )
)

CIFAR100 = dataset_kind(
    CifarKind(
        name="cifar100",
        files="train and test",
        folders=("cifar-100-binary", "cifar-100-python"),
        classes=100,
        label_bytes=2,  # the coarse label comes first and is not used; the fine one is the label
        label_key="fine_labels",
        train="train",
        test="test",
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2673, 0.2564, 0.2762),
    )
)
