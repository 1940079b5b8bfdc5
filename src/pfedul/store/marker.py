"""Folders below a run that pfedul made and may delete: a file in each of them says so.

Only such folders are deleted, so a file of the user's own, or what a link led to, is safe.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from pathlib import Path

from pfedul.errors import PfedulError
from pfedul.store.private import make_private

MARKER = "made-by-pfedul"

_TEXT = "pfedul made this folder, and deletes it when it is not needed any more.\n"


def mark(folder: Path) -> None:
    """Say that an empty folder is pfedul's; it is made if there is none."""
    make_private(folder)
    if is_marked(folder):
        return
    if any(folder.iterdir()):
        raise _not_ours(folder)
    (folder / MARKER).write_text(_TEXT, encoding="utf-8")


def is_marked(folder: Path) -> bool:
    """Whether pfedul made this folder; a link to one does not count."""
    return not folder.is_symlink() and (folder / MARKER).is_file()


def remove(folder: Path) -> None:
    """Delete a folder that pfedul made; raises if that fails, as a forgotten client may be in it.

    An empty one may be deleted as well: a process was killed before it marked it.
    """
    if is_marked(folder):
        _delete(folder)
    elif folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
        folder.rmdir()
    elif os.path.lexists(folder):
        raise _not_ours(folder)


def _delete(folder: Path) -> None:
    """The marker last, so a deletion that is killed can be finished."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != MARKER:
            entry.unlink()
    (folder / MARKER).unlink()
    folder.rmdir()


def marked_folders(place: Path) -> list[Path]:
    """The folders in a folder that pfedul made."""
    return sorted(folder for folder in place.glob("*") if is_marked(folder))


def unmarked_folders(place: Path, names: Collection[str]) -> list[Path]:
    """Folders without a marker that hold tensors, or a file of one of these names.

    An older version of pfedul may have left them.
    """
    others = (folder for folder in place.glob("*") if not is_marked(folder))
    return sorted(
        folder
        for folder in others
        if any(f.name in names or f.suffix == ".safetensors" for f in folder.rglob("*"))
    )


def _not_ours(folder: Path) -> PfedulError:
    return PfedulError(
        f"{folder} is not one that pfedul made (it has no file {MARKER}), so it is left as it is; "
        "delete it or move it elsewhere, then ask again."
    )
