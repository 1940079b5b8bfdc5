"""Files of data sets: where they are looked for, their bytes, and pixels as model inputs.

Nothing is ever downloaded: users fetch the official files from their publisher
and say where they are. A root may be the folder of the files itself or its
parent, and an official .tar.gz is read as it is, without unpacking it to disk.
"""

from __future__ import annotations

import os
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfedul.data.datasets.base import DatasetKind, Layout, SearchPath
from pfedul.data.datasets.unpacking import opened_archive
from pfedul.errors import PfedulError

ENVIRONMENT_VARIABLE = "PFEDUL_DATA"
BYTE_RANGE = 255.0
_NOWHERE = "no folder was named to look for them in"


@dataclass(frozen=True)
class Found:
    """A folder or archive, and the layout of what is in it."""

    path: Path
    layout: Layout


def search_path(root: Path | None) -> SearchPath:
    """The root that the user names, then the one that the environment names."""
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    roots = (root, Path(named) if named else None)
    return SearchPath(tuple(folder for folder in roots if folder is not None))


def find(search: SearchPath, wanted: DatasetKind) -> Found:
    """The first place in the search path that holds the files of a data set."""
    for found in _candidates(search, wanted):
        if found.path.is_file() or _has_layout(found):
            return found
    roots = " or ".join(map(str, search.roots))
    looked = f"they were not found in {roots}" if roots else _NOWHERE
    raise PfedulError(
        f"The data set '{wanted.name}' needs {wanted.files}, and {looked}: get them from "
        f"{wanted.published} and name their folder by --data-root DIR or by the environment "
        f"variable {ENVIRONMENT_VARIABLE}."
    )


def _candidates(search: SearchPath, wanted: DatasetKind) -> Iterator[Found]:
    """Named folders and archives come before the root itself, which may hold other things too."""
    for root in search.roots:
        for layout in wanted.layouts:
            names = [*layout.folders, layout.archive] if layout.archive else layout.folders
            yield from (Found(root / name, layout) for name in names)
        yield from (Found(root, layout) for layout in wanted.layouts if root.is_dir())


def _has_layout(found: Found) -> bool:
    matches = (found.path.glob(pattern) for pattern in found.layout.patterns)
    return all(any(path.is_file() for path in paths) for paths in matches)


def contents(found: Found) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of every file that the layout asks for, one at a time."""
    return _from_folder(found) if found.path.is_dir() else _from_archive(found)


def _from_folder(found: Found) -> Iterator[tuple[str, bytes]]:
    for pattern in found.layout.patterns:
        for path in sorted(found.path.glob(pattern)):
            if path.is_file():
                yield path.relative_to(found.path).as_posix(), _read(path)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PfedulError(f"The file {path} cannot be read: {error.strerror}.") from None


def _from_archive(found: Found) -> Iterator[tuple[str, bytes]]:
    """One pass through the archive, since going back would unzip it again."""
    missing = set(found.layout.patterns)
    try:
        with opened_archive(found.path) as archive:
            for member in archive:
                pattern = _wanted_by(member, found)
                if pattern and (stream := archive.extractfile(member)):
                    missing.discard(pattern)
                    yield _short_name(member.name, pattern), stream.read()
    except (tarfile.TarError, zlib.error, EOFError, OSError):
        raise PfedulError(
            f"The archive {found.path} is damaged or incomplete; fetch it again."
        ) from None
    if missing:
        lacks = " and ".join(sorted(missing))
        raise PfedulError(f"The archive {found.path} holds no {lacks}; fetch the official one.")


def _wanted_by(member: tarfile.TarInfo, found: Found) -> str:
    path = PurePosixPath(member.name)
    return next((p for p in found.layout.patterns if member.isfile() and path.match(p)), "")


def _short_name(name: str, pattern: str) -> str:
    """The name as it would be in the unpacked folder."""
    return "/".join(PurePosixPath(name).parts[-len(PurePosixPath(pattern).parts) :])


def images_from_bytes(
    pixels: NDArray[np.uint8], mean: Sequence[float], std: Sequence[float]
) -> Tensor:
    """Images [n, channels, height, width] of 0..255, centred and scaled per channel.

    By published constants, never by those of the loaded data: they would carry a trace of
    every client's samples, also of a client that asks to be forgotten.
    """
    images = pixels.astype(np.float32)
    images /= np.float32(BYTE_RANGE)
    return normalised(images, mean, std)


def normalised(images: NDArray[np.float32], mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Images [n, channels, height, width] of 0..1, centred and scaled per channel."""
    shift = np.asarray(mean, dtype=np.float32).reshape(1, -1, 1, 1)
    scale = np.asarray(std, dtype=np.float32).reshape(1, -1, 1, 1)
    # In place from here on: a full set of colour images takes most of a gigabyte.
    inputs = images - shift
    inputs /= scale
    return torch.from_numpy(inputs)
