"""What is left to do of a case that is not finished, as far as its run folder tells."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pfedul.compare.cells import options_of
from pfedul.compare.folder import RESULT_FILE
from pfedul.experiments.cases import Case
from pfedul.run.retrained import rounds_in
from pfedul.settings import from_mapping
from pfedul.store.ledger import Ledger
from pfedul.store.paths import COMPARISONS, LEDGER_FILE, ORACLES
from pfedul.store.tables import read_members


@dataclass(frozen=True)
class Left:
    """Trainings, where one that was begun is a fraction, and the methods to try.

    `bases` are trainings for methods that branch from one of their own.
    """

    training: float
    oracles: float
    bases: float
    removals: Sequence[str]


def left_of(case: Case, methods: Sequence[str], run: Path) -> Left:
    """What is left of these methods."""
    rounds = from_mapping(dict(case.settings), "the scale").rounds
    staying = _clients_of(run) - case.leaving
    oracles = [f for f in _federations(run / ORACLES) if _clients_of(f) == staying]
    layouts = {str(layout) for name in methods if (layout := options_of(name).entry.needs.layout)}
    known = _tried(case, run)
    return Left(
        1 - rounds_in(run) / rounds,
        max(0.0, case.oracles - _trained(oracles, rounds)),
        max(0.0, len(layouts) - _trained(run.glob(f"{COMPARISONS}/*/base-*"), rounds)),
        [name for name in methods if name not in known],
    )


def _trained(folders: Iterable[Path], rounds: int) -> float:
    return sum(rounds_in(folder) / rounds for folder in folders)


def _federations(place: Path) -> list[Path]:
    return [file.parent for file in place.glob(f"*/{LEDGER_FILE}")]


def _clients_of(folder: Path) -> int:
    if not (folder / LEDGER_FILE).is_file():
        return 0
    with closing(Ledger(folder / LEDGER_FILE, read_only=True)) as ledger:
        return len(read_members(ledger))


def _tried(case: Case, run: Path) -> set[str]:
    """The methods that have a result already, for so many targets, together or in turn."""
    sizes = [1] * case.leaving if case.in_turn else [case.leaving]
    files = run.glob(f"{COMPARISONS}/*/*/{RESULT_FILE}")
    results = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return {one["label"] for one in results if list(map(len, one.get("requests", ()))) == sizes}
