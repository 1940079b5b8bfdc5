"""The document of a comparison: plain data for the page, for `--json` and for other programs.

One row for each cell and one for each method over its seeds, in the same columns as the
untouched run and the oracles, each of which is judged beside the other oracles.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

from pfedul.audit.ask.answers import Answers
from pfedul.audit.evidence.document import circumstances, test_row
from pfedul.audit.judge.case import Examiner
from pfedul.audit.models import Retrained
from pfedul.audit.rehearsal import shown_path
from pfedul.base.threads import one_core
from pfedul.compare.bases import branched_from, needs_own_base
from pfedul.compare.budget import cpu_seconds, wall_seconds
from pfedul.compare.cells import ALL, Cell, cells_of
from pfedul.evaluation import preservation
from pfedul.settings import read_settings
from pfedul.store.paths import CHECKPOINTS, INIT_FILE
from pfedul.unlearn.base import Method

if TYPE_CHECKING:
    from pfedul.compare.comparing import Comparing
    from pfedul.federation import Federation

Row = dict[str, Any]

FIGURES = (
    *("mean_excess", "largest_excess", "remaining_accuracy", "pps", "cfi", "lowest_ratio"),
    *("highest_ratio", "seconds", "cpu_seconds", "rounds", "bytes_sent", "bytes_stored"),
)
"""Columns with numbers, averaged over seeds."""


def document(
    asked: Comparing,
    earlier: Sequence[Cell],
    folder: Path,
    oracles: Sequence[Retrained],
    examiner: Examiner,
    results: Mapping[str, Mapping[str, Any]],
) -> Row:
    """All that a comparison found, now and `earlier`, what was asked for now first.

    `folder` is where it keeps the runs that cells branched from.
    """
    federation = asked.federation
    every = [*asked.cells, *earlier]
    cells = [
        {
            **cell_row(cell, results[cell.key], branched_from(federation, cell.method, folder)),
            "asked": cell in asked.cells,
            "own_base": needs_own_base(federation, cell.method),
        }
        for cell in every
    ]
    remaining = [client for client in federation.clients if client not in asked.targets]
    found = federation.measure(remaining).clients
    before = {client: score.accuracy for client, score in found.items()}
    return {
        **circumstances(federation, "comparison", _command(asked, every), "comparison"),
        "targets": list(asked.targets),
        "remaining": len(remaining),
        "personalization": federation.settings.personalization,
        "data": federation.settings.data,
        "training_cpu_seconds": _training_seconds(federation),
        "references": reference_rows(examiner, oracles, before),
        "methods": method_rows(cells),
        "cells": cells,
    }


def _training_seconds(federation: Federation) -> float:
    spent = federation.store.ledger.value("SELECT SUM(cpu_seconds) FROM rounds")
    return float(spent or 0.0)


def _command(asked: Comparing, cells: Sequence[Cell]) -> str:
    """How to do the same again in a shell."""
    targets = " ".join(f"--client {target}" for target in asked.targets)
    labels = list(dict.fromkeys(cell.label for cell in cells))
    every = list(dict.fromkeys(cell.label for cell in cells_of([ALL], [None])))
    methods = ALL if set(labels) == set(every) else shlex.quote(",".join(labels))
    seeds = len({cell.seed for cell in cells})
    run = shown_path(asked.federation.store.path)
    further = f"--methods {methods} --seeds {seeds} --oracles {asked.oracles}"
    return f"pfedul compare {run} {targets} {further}"


def cell_row(cell: Cell, result: Mapping[str, Any], run: Path) -> Row:
    """One cell in the columns of the table; `run` is the one that it branched from."""
    base: Row = {
        "label": cell.label,
        "method": cell.method.name,
        "control": cell.method.about.control,
        "seed": cell.seed,
        "failure": result["failure"],
    }
    if result["failure"] is not None:
        return {**base, "verdict": None, **dict.fromkeys(FIGURES), "tests": [], "notes": []}
    outcome, tests = result["outcome"], result["tests"]
    return {
        **base,
        "verdict": result["verdict"]["verdict"],
        "sentence": result["verdict"]["sentence"],
        **leaks(tests),
        **_preserved(outcome["before"], outcome["after"]),
        "seconds": wall_seconds(outcome),
        "cpu_seconds": cpu_seconds(outcome),
        "rounds": outcome["rounds"],
        "bytes_sent": outcome["bytes_broadcast"] + outcome["bytes_uploaded"],
        "bytes_stored": stored_bytes(run, cell.method),
        "tests": tests,
        "notes": result["notes"],
    }


def leaks(tests: Iterable[Mapping[str, Any]]) -> Row:
    """How far the attacks come beyond what they reach on oracles.

    `mean_excess` is the mean difference of all attacks on all surfaces, `largest_excess`
    that of the attack and surface on which it is largest. The largest of many noisy
    figures is above zero for a retrained model, too: read both beside the oracles' own.
    """
    found = [test["difference"]["value"] for test in tests]
    if not found:
        return {"mean_excess": None, "largest_excess": None}
    return {"mean_excess": fmean(found), "largest_excess": max(found)}


def _preserved(before: Mapping[str, float], after: Mapping[str, float]) -> Row:
    """Accuracy of those who stay, and what is left of it for each of them."""
    both = [client for client in before if client in after]
    kept = preservation({c: before[c] for c in both}, {c: after[c] for c in both})
    ratios = list(kept.ratios.values())
    return {
        "remaining_accuracy": fmean(after[client] for client in both),
        "pps": kept.pps if ratios else None,
        "cfi": kept.cfi if ratios else None,
        "lowest_ratio": min(ratios, default=None),
        "highest_ratio": max(ratios, default=None),
    }


def stored_bytes(run: Path, method: Method) -> int:
    """What training keeps on disk for a method: the files of the records it needs, and where
    it needs clusters the models of all of them but one, and their checkpoints.
    """
    if "clusters" in method.needs.layout:
        return _record_bytes(run, Path(CHECKPOINTS).name) + _further_models(run)
    return _record_bytes(run, *method.needs.records)


def _record_bytes(run: Path, *wanted: str) -> int:
    files = (run / "records").rglob("*.safetensors")
    kinds = {file: file.relative_to(run / "records").parts[0] for file in files}
    return sum(file.stat().st_size for file, kind in kinds.items() if _is_of(kind, wanted))


def _further_models(run: Path) -> int:
    """The shared tensors of all clusters but one; the initial tensors are as many as one has."""
    return (read_settings(run).clusters - 1) * (run / INIT_FILE).stat().st_size


def _is_of(kind: str, wanted: tuple[str, ...]) -> bool:
    """`fisher/ID.safetensors` and `fisher-total.safetensors` are both of the record fisher."""
    return any(kind == name or kind.startswith((f"{name}-", f"{name}.")) for name in wanted)


def reference_rows(
    examiner: Examiner, oracles: Sequence[Retrained], before: Mapping[str, float]
) -> list[Row]:
    """The untouched run and each oracle, judged as the cells are."""
    case = examiner.case
    with one_core():
        rows = [_reference("untouched", examiner, case.candidate, case.oracles)]
        for place, oracle in enumerate(oracles):
            others = [model for model in case.oracles if model is not case.oracles[place]]
            rows.append(_reference(oracle.recipe.name, examiner, case.oracles[place], others))
    after = [before, *(oracle.accuracies for oracle in oracles)]
    cost = [0.0, *(oracle.cpu_seconds for oracle in oracles)]
    return [
        {**row, **_preserved(before, known), "cpu_seconds": spent}
        for row, known, spent in zip(rows, after, cost, strict=True)
    ]


def _reference(name: str, examiner: Examiner, model: Answers, beside: Sequence[Answers]) -> Row:
    tests = [test_row(finding) for finding in examiner.findings(model, beside)]
    verdict = examiner.judged(model, beside)
    return {"label": name, "verdict": verdict.verdict, **leaks(tests), "tests": tests}


def method_rows(cells: Sequence[Row]) -> list[Row]:
    """Each method over its seeds: means, and the spread where there are several."""
    labels = dict.fromkeys(cell["label"] for cell in cells)
    return [_over_seeds([cell for cell in cells if cell["label"] == label]) for label in labels]


def _over_seeds(cells: Sequence[Row]) -> Row:
    sound = [cell for cell in cells if cell["failure"] is None]
    failed = [cell["failure"] for cell in cells if cell["failure"] is not None]
    first = cells[0]
    return {
        "label": first["label"],
        "method": first["method"],
        "control": first["control"],
        "asked": any(cell["asked"] for cell in cells),
        "own_base": first["own_base"],
        "seeds": len(cells),
        "failed": len(failed),
        "failure": failed[0] if failed else None,
        "verdicts": [cell["verdict"] for cell in sound],
        **{name: mean_of(cell[name] for cell in sound) for name in FIGURES},
        "spread": {name: spread_of(cell[name] for cell in sound) for name in FIGURES},
    }


def mean_of(values: Iterable[float | None]) -> float | None:
    """Of those that are known; None where none is."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def spread_of(values: Iterable[float | None]) -> float | None:
    """The standard deviation of those that are known; None of fewer than two."""
    known = [value for value in values if value is not None]
    return pstdev(known) if len(known) > 1 else None
