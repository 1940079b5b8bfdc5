"""Works out a case: trains the run, retrains oracles, forgets with every method, keeps figures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pfedul.audit.ask.samples import FEWEST
from pfedul.audit.models import samples_of
from pfedul.base.randomness import numpy_generator
from pfedul.compare.cells import Comparison, cells_of
from pfedul.compare.comparison import compare
from pfedul.compare.document import FROM_ANSWERS
from pfedul.compare.folder import BRANCH, read_result
from pfedul.compare.tables import is_oracle
from pfedul.errors import PfedulError
from pfedul.experiments.cases import AGAIN, Case, Results
from pfedul.run.callbacks import Callback, Progress
from pfedul.run.opening import create_run, open_run
from pfedul.run.run import Run
from pfedul.run.training import train
from pfedul.store.marker import remove
from pfedul.store.paths import LEDGER_FILE
from pfedul.store.tables import spent_on_rounds
from pfedul.unlearn.methods import client_work
from pfedul.version import __version__

OnCase = Callable[[str, float], None]
"""Called with what is being done, and the share of the case that is done."""

_KEPT = (
    *("verdict", "instant", "removed", "removed_interval", "mean_excess", "largest_excess"),
    *FROM_ANSWERS,
    *("shared_accuracy_before", "shared_accuracy_after"),
    *("seconds", "cpu_seconds", "speedup", "cpu_speedup"),
    *("rounds", "bytes_sent", "bytes_stored", "notes"),
)
"""Figures of a comparison's row that are kept."""


@dataclass(frozen=True)
class Workplace:
    """Where a case is worked out: the run folder of its federation, with these records, and how.

    `how` are settings that decide nothing, such as workers, and may change when a run goes on.
    """

    run: Path
    record: str
    how: Mapping[str, Any] = field(default_factory=dict)


def work_out(case: Case, methods: Sequence[str], place: Workplace, on_case: OnCase) -> Results:
    """The results of these methods; what was finished before an interruption is not repeated."""
    steps = _Steps(case, methods, on_case)
    with closing(_run_of(case, place)) as run:
        train(run, callback=steps, evaluated=False)
        targets = targets_of(run, case)
        cells = cells_of(methods, [None])
        workers = place.how.get("workers")
        comparison = Comparison(run, targets, cells, case.oracles, workers, case.in_turn)
        folder, document = compare(comparison, steps.stage, steps.cell)
        _drop_branches(folder)
        again = {cell.key for cell in cells if read_result(folder, cell) is None}
        figures = _figures_of(document, methods, again - comparison.refusals.keys())
        return {**_setting(case, run, targets), **figures}


def _run_of(case: Case, place: Workplace) -> Run:
    if (place.run / LEDGER_FILE).is_file():
        return open_run(Run, place.run, None, None, dict(place.how), client_work())
    settings = {**case.settings, **place.how, "record": place.record, "evaluate_every": 0}
    data, model = settings.pop("data"), settings.pop("model")
    return create_run(Run, place.run, data, model, settings, client_work())


def _drop_branches(comparison: Path) -> None:
    """The results of cells stay, for methods whose budget is that of another."""
    for branch in comparison.glob(f"*/{BRANCH}"):
        remove(branch)


def targets_of(run: Run, case: Case) -> tuple[str, ...]:
    """Who leaves: the first client, or clients drawn by the seed; fewer are the first of more.

    Only clients with enough training and test samples to be attacked are drawn.
    """
    members = run.members
    able = [
        c for c in run.clients if min(members[c].train_samples, members[c].test_samples) >= FEWEST
    ]
    if case.first:
        return (run.clients[0],)
    if len(able) <= case.leaving:
        raise PfedulError(
            f"{case.leaving} clients are to leave {run.store.path}, and only {len(able)} have "
            f"{FEWEST} training and test samples; choose a scale with more data."
        )
    order = numpy_generator(run.settings.seed, "experiment", "targets").permutation(len(able))
    return tuple(able[place] for place in order[: case.leaving])


def _setting(case: Case, run: Run, targets: Sequence[str]) -> Results:
    asked = samples_of(run, targets).labels
    everybody = sum(member.train_samples for member in run.members.values())
    return {
        "version": __version__,
        "settings": dict(case.settings),
        "in_turn": case.in_turn,
        "targets": list(targets),
        "share": sum(run.members[target].train_samples for target in targets) / everybody,
        "members": len(asked.members),
        "nonmembers": len(asked.nonmembers),
        "training_cpu_seconds": spent_on_rounds(run.store.ledger).cpu_seconds,
    }


def _figures_of(
    document: Mapping[str, Any], methods: Sequence[str], again: Collection[str]
) -> Results:
    """Methods that are written differently and mean the same have the same cell.

    `again` are the cells that were ended from outside.
    """
    references = document["references"]
    cells = {_key(row["label"]): _figures(row) for row in document["cells"]}
    cells |= {key: {**cells[key], **AGAIN} for key in again}
    return {
        "untouched": next(_figures(row) for row in references if not is_oracle(row)),
        "oracles": [_figures(row) for row in references if is_oracle(row)],
        "methods": {name: cells[_key(name)] for name in methods},
    }


def _key(label: str) -> str:
    (cell,) = cells_of([label], [None])
    return cell.key


def _figures(row: Mapping[str, Any]) -> dict[str, Any]:
    if row.get("failure"):
        return {"failure": row["failure"]}
    auc = {
        f"{t['surface']}/{t['attack']}": t["figures"]["candidate"]["value"] for t in row["tests"]
    }
    return {**{name: row[name] for name in _KEPT if name in row}, "auc": auc}


class _Steps(Callback):
    """Turns the progress of training, oracles and removals into one share.

    A removal counts as a quarter of a training: a guess that only moves the bar.
    """

    def __init__(self, case: Case, methods: Sequence[str], on_case: OnCase) -> None:
        self._on_case, self._oracles = on_case, case.oracles
        self._total = 1 + case.oracles + len(methods) / 4

    def on_reply(self, progress: Progress) -> None:
        share = (progress.round - 1 + progress.replies / progress.clients) / progress.rounds
        self._on_case(f"training, round {progress.round}", share / self._total)

    def stage(self, stage: str, done: int, of: int) -> None:
        within = self._oracles * done / of if stage == "oracles" else self._oracles
        self._on_case(stage, (1 + within) / self._total)

    def cell(self, done: int, of: int, now: str) -> None:
        before = 1 + self._oracles
        self._on_case(now, (before + (self._total - before) * done / of) / self._total)
