"""Where an audit keeps federations of its own, below the run folder, and when they must go.

`oracles/KEY` holds federations that were trained without the targets. They hold
nothing of a client that is not with the run, and stay for the next audit.
`rehearsal/` is sealed: copies of the run, and its twins, have the targets in them.
It is emptied when a rehearsal ends; what a killed one left goes with the next
rehearsal or removal. Whatever is opened, no federation stays that has a client in
it whom the run has forgotten.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from pfedul.errors import PfedulError
from pfedul.store.folder import own_errors
from pfedul.store.ledger import Ledger
from pfedul.store.paths import (
    COMPARISONS,
    DEPLOYMENT,
    LEDGER_FILE,
    LOCK_FILE,
    ORACLES,
    REHEARSAL,
    REPORTS,
    STAGING,
    UNLEARNING,
)

COPY, TWIN_COPY = "copy", "unlearned twin"
"""The sealed copies: of the run, and of one twin after the other."""


_NOT_COPIED = (
    *(ORACLES, REHEARSAL, COMPARISONS, REPORTS),
    *(STAGING, DEPLOYMENT, UNLEARNING, LOCK_FILE),
)


def sweep(run: Path, present: Collection[str]) -> None:
    """Remove federations of earlier audits that have somebody in them who is not present."""
    with own_errors(run):
        for folder in doomed_folders(run, present):
            _remove(folder)
        for place in (run / ORACLES, run / REHEARSAL, run / COMPARISONS):
            if place.is_dir() and not any(place.iterdir()):
                place.rmdir()


def doomed_folders(run: Path, present: Collection[str]) -> list[Path]:
    """The oracles, sealed copies and comparisons with somebody in them who is not present."""
    audits = [*(run / ORACLES).glob("*"), *(run / REHEARSAL).glob("*")]
    doomed = [folder for folder in audits if not _members(folder) <= set(present)]
    compared = (run / COMPARISONS).glob("*")
    return sorted(doomed + [one for one in compared if not _compared(one) <= set(present)])


def clear_rehearsal(run: Path) -> None:
    """Erase all that a rehearsal made and that has the targets in it."""
    with own_errors(run):
        _remove(run / REHEARSAL)


@contextmanager
def copies_erased(run: Path) -> Iterator[None]:
    """Sealed copies do not outlast the block, however it ends; twins stay for the next call."""
    try:
        yield
    finally:
        with own_errors(run):
            for name in (COPY, TWIN_COPY):
                _remove(run / REHEARSAL / name)
                _remove(_draft(run / REHEARSAL / name))


def _compared(folder: Path) -> set[str]:
    """The clients that a comparison has in its branches and results."""
    try:
        return set(json.loads((folder / CLIENTS_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {"?"}


CLIENTS_FILE = "clients.json"


def _remove(path: Path) -> None:
    """Loudly: what cannot be removed may have somebody in it who asked to be forgotten."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _members(folder: Path) -> set[str]:
    """Everybody whom a federation has seen; of one that cannot be read: nobody known."""
    try:
        with closing(Ledger(folder / LEDGER_FILE, read_only=True)) as ledger:
            names = {row["client"] for row in ledger.rows("SELECT client FROM clients")}
            return names | {row["value"] for row in ledger.rows(_SEEN)}
    except (PfedulError, sqlite3.Error):
        return {"?"}  # no client's name: half a folder, left by a kill, is of no use


_SEEN = "SELECT value FROM requests, json_each(requests.targets)"
"""A twin that was unlearned still has its targets' traces: that is what is measured."""


def sealed_copy(source: Path, run: Path, name: str) -> Path:
    """A copy of a run folder in which a client can be forgotten, below the rehearsal of `run`.

    Tensors are linked, not copied: files of a run are replaced, never written to.
    """
    place = run / REHEARSAL / name
    copy_run(source, place)
    return place


def copy_run(source: Path, place: Path) -> None:
    """A run folder at another place, in the stead of what was there."""
    draft = _draft(place)
    with own_errors(place):
        _remove(place)
        _remove(draft)
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copytree(source, draft, ignore=_left_out(source), copy_function=_link_or_copy)
            os.replace(draft, place)  # whole or not at all
        except BaseException:
            _remove(draft)  # everybody is in it
            raise


def _draft(place: Path) -> Path:
    return place.with_name(f"{place.name}.new")


def _left_out(run: Path) -> Callable[[str, list[str]], list[str]]:
    def names(folder: str, found: list[str]) -> list[str]:
        return [name for name in found if Path(folder) == run and name in _NOT_COPIED]

    return names


def _link_or_copy(source: str, target: str) -> None:
    if source.endswith(".safetensors"):
        try:
            os.link(source, target)
            return
        except OSError:  # a file system without links
            pass
    shutil.copy2(source, target)


def clear_notes(run: Path) -> None:
    """Remove all notes of a run."""
    with own_errors(run):
        if (run / UNLEARNING).exists():
            shutil.rmtree(run / UNLEARNING)
