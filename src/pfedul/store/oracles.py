"""Where the oracles of a run are: in RUN/oracles, or in a folder on another disk.

A link would do the same, but what comes from somebody else may hold any link. So both sides say
it: RUN/oracles-at names the folder and a random key, and a file in the folder holds the same key.
A run folder alone cannot make pfedul write or delete elsewhere.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from pfedul.errors import PfedulError
from pfedul.store import paths
from pfedul.store.folder import absolute, own_errors
from pfedul.store.marker import marked_folders
from pfedul.store.private import make_private
from pfedul.store.soundness import content_of, json_object

KEY_FILE = "oracles-of-a-run"


def oracles_folder(run: Path) -> Path:
    """Where the oracles of a run are; refuses a folder that is not there, or not this run's."""
    pointer = paths.inside(run, paths.ORACLES_AT)
    if not pointer.is_file():
        return paths.inside(run, paths.ORACLES)
    with content_of(pointer):
        words = json_object(pointer.read_text(encoding="utf-8"))
        folder, key = Path(words["folder"]), str(words["key"])
    if _key_in(folder) != key:
        raise PfedulError(
            f"{pointer} names {str(folder)!r} for oracles, which is not there or not this run's; "
            f"mount that disk, or delete {pointer} if its oracles are gone."
        )
    return folder


def _key_in(folder: Path) -> str | None:
    file = folder / KEY_FILE
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else None


def keep_oracles_at(run: Path, place: Path) -> None:
    """Keep the oracles of a run in an empty folder of their own from now on."""
    folder, before = absolute(place), oracles_folder(run)
    if folder == before:
        return
    if marked_folders(before):
        raise PfedulError(
            f"There are oracles of this run in {before}; delete them first, they will be trained "
            f"anew in {folder}."
        )
    if folder.is_relative_to(run) or (folder.exists() and any(folder.iterdir())):
        raise PfedulError(f"{folder} is not an empty folder outside the run; give another.")
    key = secrets.token_hex(16)
    with own_errors(folder):
        make_private(folder)
        (folder / KEY_FILE).write_text(key, encoding="utf-8")
    with own_errors(run):
        words = json.dumps({"folder": str(folder), "key": key})
        (run / paths.ORACLES_AT).write_text(words, encoding="utf-8")
