"""Budgeted retraining is given the CPU time that pFedUL took in the same comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pfedul.base.registry import write
from pfedul.compare.cells import Cell
from pfedul.unlearn.methods import METHODS
from pfedul.unlearn.options import ForgetOptions
from pfedul.unlearn.outcome import StageCost, spent, spent_by_method

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
    if not cell.method.does.budgeted or own.cpu_seconds is not None or unit is None:
        return cell.options
    method = write(cell.method.name, replace(own, cpu_seconds=unit))
    return replace(cell.options, method=method)


def _unit(cell: Cell, cells: Sequence[Cell], found: Mapping[str, dict[str, Any]]) -> float | None:
    for other in cells:
        known = found.get(other.key) if other.label == UNIT and other.seed == cell.seed else None
        if known is not None and known["failure"] is None:
            return spent_by_method(_stages(known["outcome"])).cpu_seconds
    return None


def cpu_seconds(outcome: Mapping[str, Any]) -> float:
    """CPU seconds of a removal without the evaluation around it."""
    return spent(_stages(outcome)).cpu_seconds


def wall_seconds(outcome: Mapping[str, Any]) -> float:
    """Seconds of a removal without the evaluation around it."""
    return spent(_stages(outcome)).seconds


def _stages(outcome: Mapping[str, Any]) -> dict[str, StageCost]:
    return {name: StageCost(**cost) for name, cost in outcome["stages"].items()}
