"""The tables of a comparison's page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from pfedul.base.text import human_bytes, number, readable, signed
from pfedul.compare.words import (
    NO_RESULT,
    amount,
    figure,
    has_spread,
    is_oracle,
    marked,
    verdict_words,
    verdicts_of,
)
from pfedul.report.blocks import Table

Json = Mapping[str, Any]

_FORGETTING = (
    *("verdict", "mean excess", "largest excess", "remaining accuracy"),
    *("PPS", "CFI", "lowest and highest client"),
)
_COST = (*("CPU seconds", "of retraining", "seconds", "global rounds", "sent", "kept by training"),)


def forgetting_table(found: Json) -> Table:
    """What was forgotten and what was kept, of methods and of what they are measured by."""
    rows = [*found["references"], *found["methods"]]
    over = "mean ± standard deviation over seeds" if has_spread(rows) else "one seed"
    lines = tuple(_forgetting_row(row, _name(row)) for row in rows)
    return Table(f"Forgetting and preservation, {over}", ("method", *_FORGETTING), lines, words=2)


def references_table(found: Json) -> Table:
    """The untouched run and each oracle; of several trainings those of each."""
    rows = found.get("reference_cells", found["references"])
    lines = tuple(_forgetting_row(row, _training(row)) for row in rows)
    head = ("model", *_FORGETTING)
    return Table("The untouched run, and each oracle beside the others", head, lines, words=2)


def _training(row: Json) -> str:
    seed = row.get("seed")
    return row["label"] if seed is None else f"{row['label']}, training seed {seed}"


def _name(row: Json) -> str:
    """References in brackets: they are no methods."""
    return marked(row, readable(row["label"])) if "method" in row else f"({row['label']})"


def _forgetting_row(row: Json, name: str) -> tuple[str, ...]:
    if row["pps"] is None:
        why = f"{NO_RESULT}: {row['failure']}" if row.get("failure") else NO_RESULT
        return name, why, *[""] * 6
    ends = f"{number(row['lowest_ratio'], 2)} to {number(row['highest_ratio'], 2)}"
    return (
        name,
        verdict_words(verdicts_of(row)),
        figure(row, "mean_excess", sign=True),
        figure(row, "largest_excess", sign=True),
        figure(row, "remaining_accuracy"),
        figure(row, "pps"),
        figure(row, "cfi"),
        ends,
    )


def retraining_seconds(found: Json) -> float:
    """CPU seconds of retraining: the mean over the oracles."""
    return fmean(row["cpu_seconds"] for row in found["references"] if is_oracle(row))


def cost_table(found: Json) -> Table:
    """What each method cost, beside retraining."""
    retraining = retraining_seconds(found)
    lines = tuple(_cost_row(row, retraining) for row in found["methods"])
    return Table("Cost, mean over seeds", ("method", *_COST), lines)


def _cost_row(row: Json, retraining: float) -> tuple[str, ...]:
    name = marked(row, readable(row["label"]))
    if row["cpu_seconds"] is None:
        return name, NO_RESULT, *[""] * 5
    return (
        name,
        amount(row["cpu_seconds"]),
        f"{amount(100 * row['cpu_seconds'] / retraining)} %",
        amount(row["seconds"]),
        f"{row['rounds']:.4g}",
        human_bytes(round(row["bytes_sent"])),
        human_bytes(round(row["bytes_stored"])),
    )


def attack_tables(found: Json) -> list[Table]:
    """One for each attack: AUC by surface, and beside it the difference to the oracles."""
    rows = [*found["references"], *(_with_tests(row, found) for row in found["methods"])]
    rows = [row for row in rows if row["tests"]]
    attacks = dict.fromkeys(test["attack"] for row in rows for test in row["tests"])
    return [_attack_table(attack, rows) for attack in attacks]


def surfaces_in(found: Json) -> list[str]:
    """The surfaces that were attacked, in the order of the tables."""
    tests = (test for row in found["references"] for test in row["tests"])
    return list(dict.fromkeys(test["surface"] for test in tests))


def _with_tests(row: Json, found: Json) -> dict[str, Any]:
    """The tests of all seeds of a method."""
    cells = [cell for cell in found["cells"] if cell["label"] == row["label"]]
    return {**row, "tests": [test for cell in cells for test in cell["tests"]]}


def _attack_table(attack: str, rows: Sequence[Json]) -> Table:
    surfaces = list(dict.fromkeys(test["surface"] for row in rows for test in row["tests"]))
    lines = tuple(_attack_row(attack, row, surfaces) for row in rows)
    caption = f"AUC of the attack '{attack}' (difference to the oracles), mean over seeds"
    return Table(caption, ("model", *surfaces), lines)


def _attack_row(attack: str, row: Json, surfaces: Sequence[str]) -> tuple[str, ...]:
    tests = [test for test in row["tests"] if test["attack"] == attack]
    cells = [_auc_cell([t for t in tests if t["surface"] == surface]) for surface in surfaces]
    return _name(row), *cells


def _auc_cell(tests: Sequence[Json]) -> str:
    if not tests:
        return ""
    value = fmean(test["figures"]["candidate"]["value"] for test in tests)
    difference = fmean(test["difference"]["value"] for test in tests)
    return f"{number(value)} ({signed(difference)})"
