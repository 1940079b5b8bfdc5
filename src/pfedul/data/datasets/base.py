"""A data set as it is before it is dealt to clients, and the registry entry that loads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfedul.data.samples import TensorSamples


@dataclass(frozen=True)
class Owners:
    """The natural owner (for example the writer) of every sample of both parts."""

    train: NDArray[np.str_]
    test: NDArray[np.str_]


@dataclass(frozen=True)
class Dataset:
    """The official training and test parts, with owners where the data have them.

    `random_split`: which samples are in which part was drawn at random, class by class and owner
    by owner at most. An audit without oracles rests on it.
    """

    train: TensorSamples
    test: TensorSamples
    classes: int
    owners: Owners | None = None
    random_split: bool = False


@dataclass(frozen=True)
class SearchPath:
    """The folders in which files are looked for, first one first."""

    roots: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Layout:
    """One official form of a data set: its folder names, its file patterns, its archive.

    A place has this layout when every pattern matches at least one file: a part will do.
    """

    folders: tuple[str, ...]
    patterns: tuple[str, ...]
    archive: str = ""


@dataclass(frozen=True)
class DatasetKind:
    """A data set that users can choose; `files` are those that it needs, `published` by whom."""

    name: str
    summary: str
    options: type[Any]
    files: str
    published: str
    licence: str
    load: Callable[[SearchPath, Any], Dataset]
    layouts: tuple[Layout, ...] = ()
