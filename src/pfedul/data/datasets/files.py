"""Where the files of a data set are looked for, and what is said when they are not there.

Nothing is ever downloaded: users fetch the official files from their publisher
and say where they are. A root may be the folder of the files itself or its
parent, and an official .tar.gz is read as it is, without unpacking it to disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pfedul.errors import PfedulError

ENVIRONMENT_VARIABLE = "PFEDUL_DATA"


@dataclass(frozen=True)
class SearchPath:
    """The folders in which files are looked for, first one first."""

    roots: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Layout:
    """One official form of a data set: its folder names, its archive, its file patterns.

    A place has this layout when every pattern matches at least one file, so a
    part of the official files is enough.
    """

    folders: tuple[str, ...]
    patterns: tuple[str, ...]
    archive: str = ""


@dataclass(frozen=True)
class Wanted:
    """What to look for, and the words in which to ask the user for it."""

    name: str
    files: str
    published: str
    layouts: tuple[Layout, ...]


@dataclass(frozen=True)
class Found:
    """A folder or archive, and the layout of what is in it."""

    path: Path
    layout: Layout


def search_path(root: Path | None) -> SearchPath:
    """The root that the user names, then the one that the environment names."""
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    roots = [root] if root is not None else []
    return SearchPath((*roots, Path(named)) if named else tuple(roots))


def find(search: SearchPath, wanted: Wanted) -> Found:
    """The first place in the search path that holds what is wanted."""
    for found in _candidates(search, wanted):
        if found.path.is_file() or _has_layout(found):
            return found
    raise PfedulError(
        f"The data set '{wanted.name}' needs {wanted.files}, and {_looked(search)}: get them from "
        f"{wanted.published} and name their folder by --data-root DIR or by the environment "
        f"variable {ENVIRONMENT_VARIABLE}."
    )


def _candidates(search: SearchPath, wanted: Wanted) -> Iterator[Found]:
    """Named folders and archives come before the root itself, which may hold other things too."""
    for root in search.roots:
        for layout in wanted.layouts:
            names = [*layout.folders, layout.archive] if layout.archive else layout.folders
            yield from (Found(root / name, layout) for name in names)
        yield from (Found(root, layout) for layout in wanted.layouts if root.is_dir())


def _has_layout(found: Found) -> bool:
    matches = (found.path.glob(pattern) for pattern in found.layout.patterns)
    return all(any(path.is_file() for path in paths) for paths in matches)


def _looked(search: SearchPath) -> str:
    if not search.roots:
        return "no folder was named to look for them in"
    return f"they were not found in {' or '.join(str(root) for root in search.roots)}"
