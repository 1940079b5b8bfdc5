"""What the operator's key signed last in each run, kept next to the key and outside of all runs.

Whoever can write to a run folder can put an older copy of it there, cut the end of its chain, or
drop the chain. The chain alone does not show that; what is remembered here does. There is a
file for each place of a run, written only by the process that has the run's lock. It is
written after the ledger: a process that is killed in between leaves it one entry behind, which is
no contradiction. Where nothing can be written, nothing is remembered, and `verify` says so.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pfedul.base.hashes import digest
from pfedul.base.keys import chosen_key_file
from pfedul.store.chain import Entry
from pfedul.store.private import make_private

_LENGTH = 32
"""Digits of a hash in a name: enough that no two are equal."""


class Memory:
    """What is remembered of the run in this folder, and of its copies elsewhere."""

    def __init__(self, run: Path) -> None:
        self.run = run.resolve()
        key = chosen_key_file()
        self.folder = key.with_name(f"{key.name}.runs")
        self._place = digest(os.fsencode(self.run))[:_LENGTH]

    def note(self, first: str, head: Entry, initial: str) -> None:
        """Remember the head of the chain that begins with the hash `first`.

        `initial` is the hash of the initial tensors.
        """
        file = self.folder / f"{self._place}-{first[:_LENGTH]}.json"
        words = {"run": str(self.run), "entry": head.entry, "hash": head.hash, "initial": initial}
        draft = file.with_suffix(".new")
        with suppress(OSError):
            make_private(self.folder)
            draft.write_text(json.dumps(words), encoding="utf-8")
            os.replace(draft, file)
            for other in set(self._files(f"{self._place}-*.json")) - {file}:
                other.unlink()

    def goes_on_here(self, chain: Sequence[Entry]) -> bool:
        """Whether a chain goes on from what was signed last at this place."""
        return any(_is_in(head, chain) for head in self._here())

    def is_refused(self, chain: Sequence[Entry]) -> bool:
        """Whether a chain does not go on from what was signed last at this place.

        Each copy of a run goes its own way, so at a new place every state may go on. What was
        moved here goes on as well, if its last entry was the last one where it was; but a shorter
        copy of the run that was here may be an older one.
        """
        here, run = self._here(), self._heads_of_run(chain)
        if not here or self.goes_on_here(chain):
            return False
        moved = any(_is_in(head, chain[-1:]) for head in run)
        return not moved or any(head in run and head["entry"] > len(chain) for head in here)

    def elsewhere(self, chain: Sequence[Entry]) -> list[str]:
        """Where the same run went on otherwise than here, in sentences."""
        return [
            f"At {head['run']} your key signed entry {head['entry']} of this run, "
            "which is not in this copy."
            for head in self._heads_of_run(chain)
            if not _is_in(head, chain)
        ]

    def contradiction(self) -> str:
        """What to say of a run that does not go on from there."""
        return (
            f"{self.run} does not go on from what your key signed last: it is an older copy, "
            "or somebody cut or rewrote its history. Nothing was signed. If you restored a backup "
            f"yourself, go on from it with 'pfedul key --accept {self.run}'."
        )

    def unsigned(self, initial: str) -> str:
        """What to say of a run without a chain, as versions before the chain wrote it."""
        if self._here():
            return self.contradiction()
        places = [head["run"] for head in self._heads("*.json") if head["initial"] == initial]
        known = (
            f" Your key signed a run with the same initial tensors at {' and '.join(places)}: if "
            "this is a copy of that, somebody took its chain away."
        )
        return (
            f"{self.run} was written by an older version, which signed nothing, so nobody can tell "
            f"who changed it since.{known if places else ''} If you know where it was, begin its "
            f"chain of evidence with 'pfedul key --accept {self.run}'."
        )

    def _here(self) -> list[Mapping[str, Any]]:
        """What was signed last here, or else at a place that is now a link to here."""
        exact = self._heads(f"{self._place}-*.json")
        return exact or [head for head in self._heads("*.json") if self._is_linked(head["run"])]

    def _is_linked(self, place: str) -> bool:
        return os.path.realpath(place) == str(self.run)

    def _heads_of_run(self, chain: Sequence[Entry]) -> list[Mapping[str, Any]]:
        first = chain[0].hash[:_LENGTH] if chain else ""
        return self._heads(f"*-{first}.json") if re.fullmatch("[0-9a-f]+", first) else []

    def _heads(self, pattern: str) -> list[Mapping[str, Any]]:
        return [words for file in self._files(pattern) if (words := _read(file)) is not None]

    def _files(self, pattern: str) -> list[Path]:
        return sorted(self.folder.glob(pattern))


def _is_in(head: Mapping[str, Any], chain: Sequence[Entry]) -> bool:
    return any((entry.entry, entry.hash) == (head["entry"], head["hash"]) for entry in chain)


def _read(file: Path) -> Mapping[str, Any] | None:
    """What one file says; None if a power cut left it empty, or something else wrote it."""
    try:
        words = json.loads(file.read_text(encoding="utf-8"))
        entry, sha256, run = words["entry"], words["hash"], words["run"]
        initial = str(words.get("initial"))  # which an older version did not write
        return {"entry": int(entry), "hash": str(sha256), "run": str(run), "initial": initial}
    except (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return None
