"""The document of a comparison: plain data for the page, for `--json` and for other programs.

One row for each cell and one for each method over its seeds, in the same columns as the
untouched run and the oracles, each of which is judged against the other oracles.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from pfedul.audit.ask.answers import Answers
from pfedul.audit.evidence.document import circumstances, test_row
from pfedul.audit.instant import Witness
from pfedul.audit.judge.case import Examiner
from pfedul.audit.models import Retrained
from pfedul.audit.rehearsal import shown_path
from pfedul.base.threads import one_core
from pfedul.compare.cells import ALL, Cell, Comparison, cells_of, needs_own_base
from pfedul.compare.figures import RATIOS, mia_figures, preservation_intervals, preserved
from pfedul.compare.folder import base_of
from pfedul.compare.shared_model import shared_accuracy
from pfedul.compare.tables import is_oracle, verdict_words
from pfedul.errors import PfedulError
from pfedul.evaluation import Accuracies
from pfedul.records.base import kind_of
from pfedul.report.material import Json
from pfedul.settings import read_settings
from pfedul.store.paths import CHECKPOINTS, INIT_FILE
from pfedul.store.tables import spent_on_rounds
from pfedul.unlearn.base import Method
from pfedul.unlearn.outcome import spent, stages_of

TableRow = dict[str, Any]

SHARED_BEFORE, SHARED_AFTER = "shared_accuracy_before", "shared_accuracy_after"
FIGURES = (
    *("removed", "mean_excess", "largest_excess", "mia_accuracy"),
    *("remaining_accuracy", "pps", "cfi", *RATIOS, SHARED_BEFORE, SHARED_AFTER),
    *("seconds", "cpu_seconds", "speedup", "cpu_speedup"),
    *("rounds", "bytes_sent", "bytes_stored"),
)
"""Columns with numbers, averaged over seeds."""

INTERVALS = ("pps_interval", "cfi_interval")
FROM_ANSWERS = (
    *("mia", "mia_surface", "mia_accuracy", "remaining_accuracy", "pps", "cfi", *RATIOS),
    *("client_ratios", *INTERVALS),
)
"""Figures that the process of a cell worked out (figures.py)."""


def document(
    comparison: Comparison,
    earlier: Sequence[Cell],
    folder: Path,
    oracles: Sequence[Retrained],
    examiner: Examiner,
    results: Mapping[str, Json],
) -> TableRow:
    """All results, those of the cells of this call before those of `earlier` ones.

    `folder` is where the comparison keeps the runs that cells branched from.
    """
    run, cells = comparison.run, [*comparison.cells, *earlier]
    references = reference_rows(comparison, examiner, oracles)
    rows = [
        {
            **cell_row(cell, results[cell.key], base_of(run, cell.method, folder)),
            **speedups(results[cell.key], references),
            "asked": cell in comparison.cells,
            "own_base": needs_own_base(run, cell.method),
        }
        for cell in cells
    ]
    return {
        **circumstances(run, "comparison", _command(comparison, cells), "comparison"),
        "targets": list(comparison.targets),
        "remaining": len(comparison.remaining),
        "personalization": run.settings.personalization,
        "data": run.settings.data,
        "training_cpu_seconds": spent_on_rounds(run.store.ledger).cpu_seconds,
        "references": references,
        "methods": method_rows(rows),
        "cells": rows,
    }


def _command(comparison: Comparison, cells: Sequence[Cell]) -> str:
    """How to do the same again in a shell."""
    targets = " ".join(f"--client {target}" for target in comparison.targets)
    labels = list(dict.fromkeys(cell.label for cell in cells))
    every = {cell.label for cell in cells_of([ALL], [None])}
    methods = ALL if set(labels) == every else shlex.quote(",".join(labels))
    seeds = len({cell.seed for cell in cells})
    run = shown_path(comparison.run.store.path)
    options = f"--methods {methods} --seeds {seeds} --oracles {comparison.oracles}"
    options += " --in-turn" if comparison.in_turn else ""
    return f"pfedul compare {run} {targets} {options}"


# Rows


def cell_row(cell: Cell, result: Json, base: Path) -> TableRow:
    """One cell in the columns of the table; `base` is the run that it branched from."""
    row: TableRow = {
        "label": cell.label,
        "method": cell.method.name,
        "control": cell.method.about.control,
        "seed": cell.seed,
        "failure": result["failure"],
    }
    if result["failure"] is not None:
        empty = dict.fromkeys(("verdict", "instant", "removed_interval", *FIGURES, *FROM_ANSWERS))
        return {**row, **empty, "tests": [], "notes": []}
    outcome, tests = result["outcome"], result["tests"]
    cost = spent(stages_of(outcome))
    return {
        **row,
        "verdict": result["verdict"]["verdict"],
        "sentence": result["verdict"]["sentence"],
        **instant_part(outcome["audit"]),
        **leaks(tests),
        **{name: result[name] for name in FROM_ANSWERS},
        SHARED_BEFORE: result[SHARED_BEFORE],
        SHARED_AFTER: result[SHARED_AFTER],
        "seconds": cost.seconds,
        "cpu_seconds": cost.cpu_seconds,
        "rounds": outcome["rounds"],
        "bytes_sent": outcome["bytes_broadcast"] + outcome["bytes_uploaded"],
        "bytes_stored": stored_bytes(base, cell.method),
        "tests": tests,
        "notes": result["notes"],
    }


def instant_part(evidence: Json) -> TableRow:
    """What was seen without oracles: the verdict, and the share of the leak that is gone."""
    removed = evidence["removed"]
    return {
        "instant": evidence["verdict"]["verdict"],
        "removed": None if removed is None else removed["value"],
        "removed_interval": None if removed is None else removed["interval"],
    }


def leaks(tests: Iterable[Json]) -> TableRow:
    """How much better attacks do than on oracles.

    `mean_excess` is the mean difference of all attacks on all surfaces, `largest_excess`
    that of the attack and surface on which it is largest. The largest of many noisy
    figures is above zero for a retrained model, too: compare both with the oracles' own.
    """
    excess = [test["difference"]["value"] for test in tests]
    if not excess:
        return {"mean_excess": None, "largest_excess": None}
    return {"mean_excess": fmean(excess), "largest_excess": max(excess)}


def speedups(result: Json, references: Sequence[TableRow]) -> TableRow:
    """How many times faster a cell was than retraining, by the clock and in CPU time.

    By the clock an oracle has all the run's workers, and a cell one process to itself.
    """
    if result["failure"] is not None:
        return {}
    cost, oracles = spent(stages_of(result["outcome"])), [r for r in references if is_oracle(r)]
    own = {"seconds": cost.seconds, "cpu_seconds": cost.cpu_seconds}
    names = {"speedup": "seconds", "cpu_speedup": "cpu_seconds"}
    return {
        name: fmean(oracle[unit] for oracle in oracles) / own[unit] if own[unit] else None
        for name, unit in names.items()
    }


def stored_bytes(run: Path, method: Method) -> int:
    """What training keeps on disk for a method: the files of the records it needs, or where
    it needs clusters the models of all of them but one, and their checkpoints.
    """
    if "clusters" not in method.needs.layout:
        return _record_bytes(run, *method.needs.records)
    # The initial tensors are as large as the shared tensors of one cluster.
    models = (read_settings(run).clusters - 1) * (run / INIT_FILE).stat().st_size
    return models + _record_bytes(run, Path(CHECKPOINTS).name)


def _record_bytes(run: Path, *records: str) -> int:
    files = (run / "records").rglob("*.safetensors")
    kinds = {file: kind_of(file.relative_to(run).as_posix()) for file in files}
    return sum(file.stat().st_size for file, kind in kinds.items() if kind in records)


def reference_rows(
    comparison: Comparison, examiner: Examiner, oracles: Sequence[Retrained]
) -> list[TableRow]:
    """The untouched run and each oracle, judged as the cells are."""
    run, case = comparison.run, examiner.case
    scores, witness = run.measure(comparison.remaining).clients, Witness(run, comparison.targets)
    before = {client: score.accuracy for client, score in scores.items()}
    shared = shared_accuracy(run, comparison.remaining)
    with one_core():
        rows = [_judged("untouched", examiner, case.candidate, case.oracles)]
        rows[0] |= _read_off(examiner, case.candidate, before, before)
        rows[0] |= {SHARED_BEFORE: shared, SHARED_AFTER: shared}
        rows[0] |= {"seconds": 0.0, "cpu_seconds": 0.0, **instant_part(witness(run.shared))}
        for oracle, model in zip(oracles, case.oracles, strict=True):
            others = [other for other in case.oracles if other is not model]
            row = _judged(oracle.recipe.name, examiner, model, others)
            row |= _read_off(examiner, model, before, oracle.accuracies)
            row |= {SHARED_BEFORE: shared, SHARED_AFTER: _shared_of(comparison, oracle)}
            row |= instant_part(witness.of(oracle.state))
            row |= {"seconds": oracle.seconds, "cpu_seconds": oracle.cpu_seconds}
            rows.append({**row, "rounds": run.rounds})
    return rows


def _read_off(
    examiner: Examiner, model: Answers, before: Accuracies, after: Accuracies
) -> TableRow:
    case, kept = examiner.case, preserved(before, after)
    intervals = preservation_intervals(case.samples, case.untouched, model, kept)
    return {**mia_figures(case.surfaces, model), **kept, **intervals}


def _shared_of(comparison: Comparison, oracle: Retrained) -> float | None:
    """With clusters an oracle has several shared models, of which its state keeps one."""
    run = comparison.run
    if run.clusters.several:
        return None
    return shared_accuracy(run, comparison.remaining, oracle.state.shared)


def _judged(name: str, examiner: Examiner, model: Answers, oracles: Sequence[Answers]) -> TableRow:
    tests = [test_row(finding) for finding in examiner.findings(model, oracles)]
    verdict = examiner.judged(model, oracles)
    return {"label": name, "verdict": verdict.verdict, **leaks(tests), "tests": tests}


def method_rows(cells: Sequence[TableRow]) -> list[TableRow]:
    """Each method over its seeds: means, and the spread where there are several."""
    labels = dict.fromkeys(cell["label"] for cell in cells)
    return [_over_seeds([cell for cell in cells if cell["label"] == label]) for label in labels]


def _over_seeds(cells: Sequence[TableRow]) -> TableRow:
    sound = [cell for cell in cells if cell["failure"] is None]
    failures = [cell["failure"] for cell in cells if cell["failure"] is not None]
    same = {key: cells[0][key] for key in ("label", "method", "control")}
    return {
        **same,
        "asked": any(cell["asked"] for cell in cells),
        "own_base": cells[0]["own_base"],
        "seeds": len(cells),
        "failed": len(failures),
        "failure": failures[0] if failures else None,
        "verdicts": [cell["verdict"] for cell in sound],
        **_means(sound, FIGURES),
        **{name: sound[0][name] if len(sound) == 1 else None for name in INTERVALS},
    }


def _means(rows: Sequence[Json], names: Iterable[str]) -> TableRow:
    """The mean of each figure over the rows that have it, and its standard deviation."""
    values = {name: [row[name] for row in rows if row.get(name) is not None] for name in names}
    means = {name: fmean(some) if some else None for name, some in values.items()}
    spread = {name: pstdev(some) if len(some) > 1 else None for name, some in values.items()}
    return {**means, "spread": spread}


# Several runs


def merged(documents: Sequence[Json]) -> TableRow:
    """One document of several, of the same federation trained with several seeds.

    Only this shows how much of a difference between methods is luck in the training. Rows of
    methods and of the untouched runs are means over all runs. Oracles of different runs have
    only their names in common, so one row is the mean over all of them, and each has a row in
    `reference_cells`.
    """
    _check_alike(documents)
    cells = [{**cell, "seed": one["seed"]} for one in documents for cell in one["cells"]]
    references = [{**row, "seed": one["seed"]} for one in documents for row in one["references"]]
    return {
        **documents[0],
        "made_at": max(one["made_at"] for one in documents),
        "targets": list(dict.fromkeys(name for one in documents for name in one["targets"])),
        "runs": [{key: one[key] for key in ("seed", "targets")} for one in documents],
        "command": "\n".join(one["command"] for one in documents),
        "configuration": "\n".join(map(_configuration, documents)),
        "training_cpu_seconds": fmean(one["training_cpu_seconds"] for one in documents),
        "references": _mean_references(references),
        "reference_cells": [{**row, "tests": []} for row in references],
        "methods": method_rows(cells),
        "cells": cells,
    }


def _check_alike(documents: Sequence[Json]) -> None:
    first = documents[0]
    for other in documents[1:]:
        for key in ("data", "personalization", "rounds"):
            if other[key] != first[key]:
                raise PfedulError(
                    f"These comparisons differ in {key} ({first[key]}, {other[key]}); "
                    "merge those of one federation with several seeds."
                )


def _configuration(one: Json) -> str:
    heading = f"# The run with seed {one['seed']}, of which {', '.join(one['targets'])}"
    return f"{heading} is forgotten:\n{one['configuration']}"


def _mean_references(rows: Sequence[Json]) -> list[TableRow]:
    """Figures are means; verdicts and tests are those of all runs."""
    groups = {
        "untouched": [row for row in rows if not is_oracle(row)],
        "oracles": [row for row in rows if is_oracle(row)],
    }
    return [
        {
            "label": label,
            "verdict": verdict_words([row["verdict"] for row in group]),
            "verdicts": [row["verdict"] for row in group],
            **_means(group, [name for name in FIGURES if name in group[0]]),
            "tests": [test for row in group for test in row["tests"]],
        }
        for label, group in groups.items()
        if group
    ]
