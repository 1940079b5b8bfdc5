"""Fashion-MNIST: 70,000 grey images of clothes, 28 x 28 points, 10 classes.

H. Xiao, K. Rasul, R. Vollgraf (2017), "Fashion-MNIST: a Novel Image Dataset for
Benchmarking Machine Learning Algorithms"; published by Zalando Research. The files are in
the idx format of MNIST: two zero bytes, one byte for the type of the values, one for the
number of dimensions, each dimension as a big-endian 32-bit number, the values.
"""

from __future__ import annotations

import zlib

import numpy as np
import torch
from numpy.typing import NDArray

from pfedul.base.registry import NoOptions
from pfedul.data.datasets.base import Dataset, DatasetKind, Layout, SearchPath
from pfedul.data.datasets.files import contents, find, images_from_bytes
from pfedul.data.datasets.unpacking import unzipped
from pfedul.data.samples import TensorSamples, tensor_samples
from pfedul.errors import PfedulError

GZIP_START = b"\x1f\x8b"
UNSIGNED_BYTE = 8  # how an idx file calls its type of values
CLASSES = 10
SIDE = 28
# Mean and deviation of the full official training part, as widely published.
MEAN, STD = (0.2860,), (0.3530,)

_IMAGES, _LABELS = "{}-images-idx3-ubyte", "{}-labels-idx1-ubyte"
_NAMES = tuple(name.format(part) for part in ("train", "t10k") for name in (_IMAGES, _LABELS))
_FOLDERS = ("fashion-mnist", "FashionMNIST/raw")


def load(search: SearchPath, _options: NoOptions) -> Dataset:
    """The official training part and the official test part ("t10k")."""
    found = find(search, FASHION_MNIST)
    files = {name.removesuffix(".gz"): content for name, content in contents(found)}
    return Dataset(_part(files, "train"), _part(files, "t10k"), CLASSES, random_split=True)


def _part(files: dict[str, bytes], part: str) -> TensorSamples:
    images_name, labels_name = _IMAGES.format(part), _LABELS.format(part)
    pixels = read_idx(images_name, files[images_name], dimensions=3)
    labels = read_idx(labels_name, files[labels_name], dimensions=1).astype(np.int64)
    if pixels.shape != (len(labels), SIDE, SIDE) or labels.max(initial=0) >= CLASSES:
        raise PfedulError(
            f"The files {images_name} and {labels_name} do not hold one label from 0 to 9 for "
            "each image of 28 x 28 points; fetch the official ones."
        )
    x = images_from_bytes(pixels[:, np.newaxis], MEAN, STD)
    return tensor_samples(x, torch.from_numpy(labels), f"fashion-mnist ({part})")


FASHION_MNIST = DatasetKind(
    name="fashion-mnist",
    summary="70,000 grey images of clothes, 28 x 28 points; 10 classes",
    options=NoOptions,
    files="the four files {train,t10k}-{images-idx3,labels-idx1}-ubyte, plain or .gz",
    published="Zalando Research, https://github.com/zalandoresearch/fashion-mnist",
    licence="MIT",
    load=load,
    layouts=(Layout(_FOLDERS, _NAMES), Layout(_FOLDERS, tuple(f"{name}.gz" for name in _NAMES))),
)


def read_idx(name: str, content: bytes, dimensions: int) -> NDArray[np.uint8]:
    """The array in an idx file, plain or gzipped."""
    plain = _unzipped(name, content)
    header = 4 + 4 * dimensions
    if plain[:4] != bytes([0, 0, UNSIGNED_BYTE, dimensions]) or len(plain) < header:
        raise PfedulError(f"The file {name} is not an idx file of bytes; fetch the official one.")
    shape = tuple(int(size) for size in np.frombuffer(plain, ">u4", dimensions, 4))
    values = np.frombuffer(plain, np.uint8, offset=header)
    if len(values) != np.prod(shape, dtype=np.int64):
        raise PfedulError(f"The file {name} is cut short or too long; fetch it again.")
    return values.reshape(shape)


def _unzipped(name: str, content: bytes) -> bytes:
    if not content.startswith(GZIP_START):
        return content
    try:
        return unzipped(name, content)
    except (OSError, EOFError, zlib.error):
        raise PfedulError(f"The file {name} is damaged or incomplete; fetch it again.") from None
