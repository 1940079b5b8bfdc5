"""What cases share: the training of a federation, and the oracles in its run folder.

A run keeps the records that any experiment wants of it, whichever is asked for, and stays until
all that share it are done. So whatever is asked for next, nothing is trained again. A process
that works on a case holds the lock of its federation; another one goes on with other federations.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from pfedul.base.hashes import digest
from pfedul.compare.cells import options_of
from pfedul.experiments.base import Experiment
from pfedul.experiments.cases import Case, Scale, Shelf, Wanted, cases_of
from pfedul.records import canonical_records
from pfedul.store.folder import own_errors

USUAL = "fisher+contributions"
_SECONDS_BETWEEN_LOOKS = 1.0


@dataclass(frozen=True)
class Sharing:
    """The run folders below `runs`, and by federation all cases that any experiment has of it."""

    runs: Path
    cases: Mapping[str, Wanted]

    def record(self, case: Case) -> str:
        """What training keeps for all methods of all cases."""
        return records_of(name for _, methods in self.cases[case.federation] for name in methods)

    def run_of(self, case: Case) -> Path:
        """The run folder of a case's federation."""
        return self.runs / f"{case.federation}-{digest(self.record(case).encode())[:6]}"

    def finished(self, case: Case, shelf: Shelf) -> bool:
        """Whether nothing will be asked of this federation any more."""
        return not any(shelf.open(*wanted) for wanted in self.cases[case.federation])

    def lock(self, name: str) -> FileLock:
        """The lock of a federation, or of whatever else only one process may work on."""
        with own_errors(self.runs):
            self.runs.mkdir(parents=True, exist_ok=True)
        return FileLock(self.runs / f"{name}.lock")

    def free_cases(self, cases: Sequence[Case]) -> Generator[Case, None, None]:
        """The cases in order, each with its lock held; those of other processes come later."""
        waiting = list(cases)
        while waiting:
            case, lock = self._first_free(waiting)
            waiting.remove(case)
            try:
                yield case
            finally:
                lock.release()

    def _first_free(self, cases: Sequence[Case]) -> tuple[Case, FileLock]:
        while True:
            for case in cases:
                lock = self.lock(case.federation)
                try:
                    lock.acquire(timeout=0)
                except Timeout:
                    continue
                return case, lock
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def tidy(self, case: Case, shelf: Shelf) -> None:
        """Delete the run of a federation that is finished; its lock must be held."""
        if self.finished(case, shelf):
            shutil.rmtree(self.run_of(case), ignore_errors=True)


def sharing_of(experiments: Iterable[Experiment], scale: Scale, runs: Path) -> Sharing:
    """What the cases of these experiments share."""
    cases: dict[str, Wanted] = {}
    for case, methods in cases_of(list(experiments), scale):
        cases.setdefault(case.federation, []).append((case, methods))
    return Sharing(runs, cases)


def records_of(methods: Iterable[str]) -> str:
    """What training must keep for these methods."""
    names = [name for label in methods for name in options_of(label).records]
    return canonical_records("+".join(dict.fromkeys([USUAL, *names])))
