"""Federations below a run folder: those that audits train, copies of the run, comparisons.

`oracles/KEY` holds federations that were trained without the targets, kept for the next audit.
`rehearsal/` is sealed: copies of the run, and its twins, contain the targets. It is emptied when a
rehearsal ends; what a killed rehearsal left is removed by the next rehearsal or removal. Opening a
run removes every federation that contains a forgotten client. Only folders with a marker are
deleted (marker.py).
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from pfedul.errors import PfedulError
from pfedul.store import paths
from pfedul.store.chain import TRIAL, Attestation
from pfedul.store.folder import own_errors
from pfedul.store.ledger import Ledger
from pfedul.store.marker import MARKER, mark, marked_folders, remove, unmarked_folders
from pfedul.store.oracles import oracles_folder

COPY, TWIN_COPY = "copy", "unlearned twin"
"""The sealed copies: of the run, and of one twin after the other."""


_NOT_COPIED = {
    *(paths.ORACLES, paths.REHEARSAL, paths.COMPARISONS, paths.REPORTS, paths.CERTIFICATES),
    *(paths.STAGING, paths.DEPLOYMENT, paths.UNLEARNING, paths.LOCK_FILE, paths.ORACLES_AT),
}


def sweep(run: Path, present: Collection[str]) -> None:
    """Remove the federations below a run that contain a client who is not present."""
    with own_errors(run):
        for folder in obsolete_folders(run, present):
            remove(folder)
        for place in _READERS:
            _remove_if_empty(run / place)


def obsolete_folders(run: Path, present: Collection[str]) -> list[Path]:
    """The oracles, sealed copies and comparisons that contain a client who is not present."""
    return sorted(
        folder
        for place, clients_of in _READERS.items()
        for folder in marked_folders(_place(run, place))
        if not clients_of(folder) <= set(present)
    )


def _place(run: Path, name: str) -> Path:
    return oracles_folder(run) if name == paths.ORACLES else paths.inside(run, name)


def refuse_leftovers(run: Path, present: Collection[str]) -> None:
    """Refuse a removal if a folder without a marker may contain a client who is not present.

    An older version made such folders; they are not deleted, as they may be somebody else's.
    """
    for place, clients_of in {**_READERS, paths.UNLEARNING: _members}.items():
        for folder in unmarked_folders(_place(run, place), (paths.LEDGER_FILE, CLIENTS_FILE)):
            if not clients_of(folder) <= set(present):
                raise PfedulError(
                    f"{folder} may hold what is to be forgotten, and has no file {MARKER} that "
                    "lets pfedul delete it; delete it or move it elsewhere, then ask again."
                )


def clear_rehearsal(run: Path) -> None:
    """Erase everything of a rehearsal that contains the targets."""
    _clear(run / paths.REHEARSAL)


@contextmanager
def copies_erased(run: Path) -> Iterator[None]:
    """Erase sealed copies when the block ends, however it ends; twins stay for the next call."""
    try:
        yield
    finally:
        with own_errors(run):
            for name in (COPY, TWIN_COPY):
                remove(run / paths.REHEARSAL / name)
                remove(_draft(run / paths.REHEARSAL / name))


def _compared(folder: Path) -> set[str]:
    """The clients in the branches and results of a comparison."""
    try:
        return set(json.loads((folder / CLIENTS_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return _UNREADABLE


CLIENTS_FILE = "clients.json"

_UNREADABLE = {"?"}
"""Stands for the clients of an unreadable folder (left by a kill); no client has this name."""


def _members(folder: Path) -> set[str]:
    """All clients that a federation has seen, its forgotten ones included."""
    try:
        with closing(Ledger(folder / paths.LEDGER_FILE, read_only=True)) as ledger:
            return {*ledger.column("SELECT client FROM clients"), *ledger.column(_SEEN)}
    except (PfedulError, sqlite3.Error):
        return _UNREADABLE


_SEEN = "SELECT value FROM requests, json_each(requests.targets)"
"""An unlearned twin still has traces of its targets: an audit measures them."""

_READERS = {
    paths.ORACLES: _members,
    paths.REHEARSAL: _members,
    paths.COMPARISONS: _compared,
}
"""Where there are federations of clients, and what reads whose they are."""


def sealed_copy(source: Path, run: Path, name: str) -> Path:
    """Copy a run folder to the rehearsal of `run`, to forget a client in the copy."""
    place = run / paths.REHEARSAL / name
    copy_run(source, place)
    return place


def copy_run(source: Path, place: Path) -> None:
    """Copy a run folder, replacing the destination. An entry keeps it from passing as the run."""
    draft = _draft(place)

    def left_out(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if Path(folder) == source and name in _NOT_COPIED]

    with own_errors(place):
        remove(place)
        remove(draft)
        mark(draft)
        try:
            shutil.copytree(
                source, draft, ignore=left_out, copy_function=_link_or_copy, dirs_exist_ok=True
            )
            with closing(Ledger(draft / paths.LEDGER_FILE)) as ledger:
                ledger.write([Attestation(TRIAL)])
            os.replace(draft, place)  # whole or not at all
        except BaseException:
            remove(draft)  # it contains all clients
            raise


def _draft(place: Path) -> Path:
    return place.with_name(f"{place.name}.new")


def _link_or_copy(source: str, target: str) -> None:
    """Hard links to tensor files: a run replaces its files and never writes to them."""
    if source.endswith(".safetensors"):
        with suppress(OSError):  # a file system without links
            os.link(source, target)
            return
    shutil.copy2(source, target)


def clear_notes(run: Path) -> None:
    """Remove the notes that methods left in a run (see unlearn/notebook.py)."""
    _clear(run / paths.UNLEARNING)


def _clear(place: Path) -> None:
    """Delete all that pfedul made in a folder, and the folder if nothing is left in it."""
    with own_errors(place):
        for folder in marked_folders(place):
            remove(folder)
        _remove_if_empty(place)


def _remove_if_empty(place: Path) -> None:
    with suppress(OSError):  # it is not there, or not empty
        place.rmdir()
