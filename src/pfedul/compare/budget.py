"""Budgeted retraining is given the CPU time that pFedUL took in the same comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pfedul.compare.cells import Cell
from pfedul.registry import write
from pfedul.unlearn.forget_options import ForgetOptions
from pfedul.unlearn.methods import METHODS

EVALUATION = "evaluation"
"""The stage that measures what a removal did to accuracies, and is no part of it."""

UNIT = "pfedul"
"""The cell whose CPU time is the unit of budgets."""


def with_budget(
    cell: Cell, cells: Sequence[Cell], found: Mapping[str, dict[str, Any]]
) -> ForgetOptions:
    """The options of a cell, with pFedUL's CPU time filled in where it is a budgeted one.

    Without a result of pFedUL with the same seed the method measures the time itself.
    """
    _, own = METHODS.parse(cell.options.method)
    unit = _unit(cell, cells, found)
    if not cell.method.budgeted or own.cpu_seconds is not None or unit is None:
        return cell.options
    method = write(cell.method.name, replace(own, cpu_seconds=unit))
    return replace(cell.options, method=method)


def _unit(cell: Cell, cells: Sequence[Cell], found: Mapping[str, dict[str, Any]]) -> float | None:
    for other in cells:
        known = found.get(other.key) if other.label == UNIT and other.seed == cell.seed else None
        if known is not None and known["failure"] is None:
            return cpu_seconds(known["outcome"])
    return None


def cpu_seconds(outcome: Mapping[str, Any]) -> float:
    """CPU seconds of a removal without the evaluation around it."""
    return _summed(outcome, "cpu_seconds")


def wall_seconds(outcome: Mapping[str, Any]) -> float:
    """Seconds of a removal without the evaluation around it."""
    return _summed(outcome, "seconds")


def _summed(outcome: Mapping[str, Any], what: str) -> float:
    stages = outcome["stages"].items()
    return float(sum(cost[what] for name, cost in stages if name != EVALUATION))
