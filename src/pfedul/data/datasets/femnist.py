"""FEMNIST: handwritten digits and letters by some 3,500 writers, 28 x 28 points, 62 classes.

S. Caldas et al. (2018), "LEAF: A Benchmark for Federated Settings", made from NIST Special Database
19. LEAF's scripts write json files into the folders train and test: `users`, and for each user
`user_data` with rows `x` of 784 values (1 = white paper) and labels `y`. LEAF holds out a tenth,
some 16 images of a writer. An audit of one writer wants more, so its images can be dealt anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pfedul.base.options import option
from pfedul.data.datasets.base import Dataset, DatasetKind, Layout, Owners, SearchPath
from pfedul.data.datasets.files import contents, find, normalised
from pfedul.data.samples import Indices, TensorSamples, stratified_split, tensor_samples
from pfedul.errors import PfedulError

CLASSES = 62
PIXELS = 28 * 28
# Mean and deviation of the whole set, as widely published (0.9637 with white = 1).
# Paper is turned to 0 and ink to 1, so padding by zeros looks like paper.
MEAN, STD = (1 - 0.9637,), (0.1597,)


@dataclass(frozen=True)
class FemnistOptions:
    """How much of each writer's images is held out."""

    test: float | None = option(
        None,
        "share of each writer's images that are test images, dealt anew; LEAF's own parts",
        above=0,
        below=1,
    )


@dataclass(frozen=True)
class _Writer:
    name: str
    images: NDArray[np.float32]
    labels: NDArray[np.int64]


def load(search: SearchPath, options: FemnistOptions) -> Dataset:
    """LEAF's own training and test parts, or parts dealt anew, with the writer of every image."""
    read: dict[str, list[_Writer]] = {"train": [], "test": []}
    for name, content in contents(find(search, FEMNIST)):
        read[name.partition("/")[0]].extend(_writers(name, content))
    parts = (read["train"], read["test"])
    train, test = parts if options.test is None else _dealt([*parts[0], *parts[1]], options.test)
    owners = Owners(_owners(train), _owners(test))
    return Dataset(_samples(train), _samples(test), CLASSES, owners, random_split=True)


def _dealt(writers: list[_Writer], share: float) -> tuple[list[_Writer], list[_Writer]]:
    """Training and test part of each writer, by a draw that depends on no other writer."""
    name = attrgetter("name")
    wholes = [_whole(own) for _, own in groupby(sorted(writers, key=name), key=name)]
    rows = [stratified_split(writer.labels, share=share) for writer in wholes]
    train = [_some(writer, train) for writer, (train, _) in zip(wholes, rows, strict=True)]
    return train, [_some(writer, test) for writer, (_, test) in zip(wholes, rows, strict=True)]


def _whole(parts: Iterable[_Writer]) -> _Writer:
    """One writer, of whom the files have several parts."""
    found = list(parts)
    images = np.concatenate([part.images for part in found])
    return _Writer(found[0].name, images, np.concatenate([part.labels for part in found]))


def _some(writer: _Writer, rows: Indices) -> _Writer:
    return _Writer(writer.name, writer.images[rows], writer.labels[rows])


def _writers(name: str, content: bytes) -> Iterator[_Writer]:
    try:
        given = json.loads(content)
        for user in given["users"]:
            data = given["user_data"][user]
            images = _numbers(data["x"], "fiu").astype(np.float32).reshape(-1, PIXELS)
            labels = _numbers(data["y"], "iu").astype(np.int64)
            if labels.shape != (len(images),) or ((labels < 0) | (labels >= CLASSES)).any():
                raise ValueError("one label from 0 to 61 for each image")
            yield _Writer(str(user), images, labels)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        raise PfedulError(
            f"The file {name} is not LEAF's json for FEMNIST (users, user_data with rows x of 784 "
            "values and labels y from 0 to 61); make it again with LEAF's scripts."
        ) from None


def _numbers(values: object, kinds: str) -> NDArray[Any]:
    """An array of numbers of these kinds; text that looks like a number is not one."""
    array = np.array(values)
    if array.size and array.dtype.kind not in kinds:
        raise TypeError(f"not numbers: {array.dtype}")
    return array


def _owners(writers: list[_Writer]) -> NDArray[np.str_]:
    names = np.array([writer.name for writer in writers], dtype=np.str_)
    return np.repeat(names, [len(writer.labels) for writer in writers])


def _samples(writers: list[_Writer]) -> TensorSamples:
    paper = np.concatenate([np.empty((0, PIXELS), np.float32), *(w.images for w in writers)])
    labels = np.concatenate([np.empty(0, np.int64), *(w.labels for w in writers)])
    x = normalised((1 - paper).reshape(-1, 1, 28, 28), MEAN, STD)
    return tensor_samples(x, torch.from_numpy(labels), FEMNIST.name)


FEMNIST = DatasetKind(
    name="femnist",
    summary="digits and letters by genuine writers, 28 x 28 points; 62 classes",
    options=FemnistOptions,
    files="LEAF's json files in the folders train and test",
    published="the LEAF benchmark, https://github.com/TalwalkarLab/leaf (data/femnist)",
    licence="LEAF: BSD 2-Clause; NIST Special Database 19 is free to use",
    load=load,
    layouts=(Layout(("femnist", "femnist/data"), ("train/*.json", "test/*.json")),),
)
