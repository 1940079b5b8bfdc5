"""People's own data in one numpy .npz file.

It holds x_train, y_train, x_test and y_test, or only x and y (then a fixed
80/20 split is made). Optional arrays client_train and client_test (or client)
name the owner of every sample, for the partition `natural`. Inputs are
floating numbers, used as they are, or bytes, which are divided by 255.
"""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfedul.base.inputs import shape_of
from pfedul.base.options import REQUIRED, option
from pfedul.data.checks import classes_up_to
from pfedul.data.datasets.base import Dataset, DatasetKind, Owners, SearchPath
from pfedul.data.datasets.files import BYTE_RANGE
from pfedul.data.datasets.unpacking import check_room
from pfedul.data.samples import ClientData, TensorSamples, stratified_split, tensor_samples
from pfedul.errors import PfedulError

Arrays = dict[str, NDArray[Any]]

_KNOWN = {f"{name}{part}" for name in ("x", "y", "client") for part in ("", "_train", "_test")}
"""All others are not read."""

_KEYS = "x_train, y_train, x_test and y_test, or x and y"


@dataclass(frozen=True)
class NpzOptions:
    """Which file."""

    file: str = option(REQUIRED, "absolute, or relative to the working folder or a data root")


def load(search: SearchPath, options: NpzOptions) -> Dataset:
    """The file's training and test parts; classes are 0 up to the largest label."""
    path = _find(search, options.file)
    given = _read(path)
    arrays = _with_parts(given, path)
    train, test = _samples(arrays, "train", path), _samples(arrays, "test", path)
    if not len(train) or not len(test):
        raise PfedulError(f"The file {path} needs both training and test samples; add some.")
    if shape_of(train.x) != shape_of(test.x):
        raise PfedulError(
            f"The inputs for training and for test in {path} differ in shape; make them alike."
        )
    largest = max(int(train.y.max()), int(test.y.max()))
    owners = _owners(arrays, train, test, path)
    return Dataset(train, test, classes_up_to(largest), owners, random_split=arrays is not given)


def read_parts(path: Path) -> ClientData:
    """One client's two parts, as the file has them; it must say which samples were trained on."""
    if not path.is_file():
        raise PfedulError(f"There is no file {path}.")
    arrays = _read(path)
    missing = [key for key in _BOTH_PARTS if key not in arrays]
    if missing:
        raise PfedulError(
            f"The file {path} lacks {missing[0]}: it must hold x_train, y_train (samples that were "
            "trained on) and x_test, y_test (samples of the same kind that were not)."
        )
    return ClientData(_samples(arrays, "train", path), _samples(arrays, "test", path))


_BOTH_PARTS = ("x_train", "y_train", "x_test", "y_test")


def _find(search: SearchPath, file: str) -> Path:
    places = [Path(file), *(root / file for root in search.roots)]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        looked = " or ".join(str(place) for place in places)
        raise PfedulError(f"There is no file {looked}; write npz:file=FILE with the file's path.")
    return found


def _read(path: Path) -> Arrays:
    try:
        # Object arrays are pickles, which may run code: they are not read.
        with np.load(path, allow_pickle=False) as archive:
            keys = _KNOWN & set(archive.files)
            check_room(path, archive.zip, keys)
            return {key: archive[key] for key in archive.files if key in keys}
    # A lone .npy array is neither a context manager nor has it files. A header may name any size.
    except (
        *(ValueError, OSError, EOFError, TypeError, AttributeError),
        *(OverflowError, MemoryError, zlib.error, zipfile.BadZipFile),
    ):
        raise PfedulError(
            f"The file {path} is not an .npz file of plain arrays; write it with "
            "numpy.savez(FILE, x=..., y=...) without object arrays."
        ) from None


def _with_parts(arrays: Arrays, path: Path) -> Arrays:
    """The arrays by part: as given, or split if the file has only x and y."""
    if set(_BOTH_PARTS) <= arrays.keys():
        return arrays
    if not {"x", "y"} <= arrays.keys():
        has = ", ".join(arrays) or "nothing"
        raise PfedulError(f"The file {path} needs the arrays {_KEYS}, but it holds {has}.")
    whole = {key: arrays[key] for key in ("x", "y", "client") if key in arrays}
    if {len(np.atleast_1d(array)) for array in whole.values()} != {len(np.atleast_1d(arrays["y"]))}:
        raise PfedulError(f"The arrays {', '.join(whole)} in {path} must have equal lengths.")
    train, test = stratified_split(_labels(arrays["y"], path), whole.get("client"))
    parts = (("train", train), ("test", test))
    return {f"{key}_{part}": whole[key][rows] for key in whole for part, rows in parts}


def _samples(arrays: Arrays, part: str, path: Path) -> TensorSamples:
    x, y = arrays[f"x_{part}"], _labels(arrays[f"y_{part}"], path)
    if x.ndim < 2 or len(x) != len(y):
        raise PfedulError(
            f"In {path}, x_{part} must have one row for each of the {len(y)} labels in y_{part}."
        )
    return tensor_samples(_inputs(x, path), torch.from_numpy(y), f"{path} ({part})")


def _inputs(x: NDArray[Any], path: Path) -> Tensor:
    if x.dtype == np.uint8:
        return torch.from_numpy(x.astype(np.float32) / np.float32(BYTE_RANGE))
    if x.dtype.kind != "f":
        raise PfedulError(
            f"The inputs in {path} are of type {x.dtype}; store them as floating numbers or uint8."
        )
    return torch.from_numpy(x.astype(np.float32))


def _labels(y: NDArray[Any], path: Path) -> NDArray[np.int64]:
    if y.ndim != 1 or y.dtype.kind not in "iu":
        raise PfedulError(f"The labels in {path} must be a list of whole numbers from 0 up.")
    return y.astype(np.int64)


def _owners(arrays: Arrays, train: TensorSamples, test: TensorSamples, path: Path) -> Owners | None:
    if "client_train" not in arrays and "client_test" not in arrays:
        return None
    owners = Owners(
        np.asarray(arrays.get("client_train", ())).astype(np.str_),
        np.asarray(arrays.get("client_test", ())).astype(np.str_),
    )
    if owners.train.shape != train.y.shape or owners.test.shape != test.y.shape:
        raise PfedulError(
            f"In {path}, client_train and client_test must name one owner for each sample."
        )
    return owners


NPZ = DatasetKind(
    name="npz",
    summary=f"your own arrays in one .npz file: {_KEYS}",
    options=NpzOptions,
    files="",
    published="you",
    licence="your own",
    load=load,
)
