"""Who is at work on a run, and how far: all that its folder shows while a process is at work.

A round counts when it is committed. What is done since then is in no file, and not guessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from pfedul.errors import PfedulError
from pfedul.settings import read_settings
from pfedul.store.folder import process_at_work, require_run
from pfedul.store.ledger import Ledger
from pfedul.store.marker import marked_folders
from pfedul.store.oracles import oracles_folder
from pfedul.store.paths import COMPARISONS, LEDGER_FILE, ORACLES, REHEARSAL
from pfedul.store.tables import last_round


@dataclass(frozen=True)
class Part:
    """A federation below the run that is being trained or tried: an oracle, a copy, a branch."""

    name: str
    rounds: int
    wanted: int


@dataclass(frozen=True)
class Work:
    """The process that has the run's lock, and the federations below the run that are locked."""

    process: int
    parts: tuple[Part, ...]


def work_on(run: Path) -> Work | None:
    """None if no process of this user on this machine is at work on the run."""
    process = process_at_work(run)
    return None if process is None else Work(process, tuple(_parts(run)))


def _parts(run: Path) -> Iterator[Part]:
    for name, folder in _federations(run):
        with suppress(PfedulError, OSError):  # it ends, or is removed, meanwhile
            if process_at_work(folder) is not None:
                yield _part(name, folder)


def _federations(run: Path) -> Iterator[tuple[str, Path]]:
    with suppress(PfedulError, OSError):
        for folder in marked_folders(oracles_folder(run)):
            yield f"{ORACLES}/{folder.name}", folder
        for folder in marked_folders(run / REHEARSAL):
            yield f"{REHEARSAL}/{folder.name}", folder
        for branch in sorted((run / COMPARISONS).glob("*/*/branch")):
            yield f"{COMPARISONS}/{branch.parent.name}", branch


def _part(name: str, folder: Path) -> Part:
    require_run(folder)
    with closing(Ledger(folder / LEDGER_FILE, read_only=True)) as ledger:
        return Part(name, last_round(ledger), read_settings(folder).rounds)
