"""What an attack is, and what it hands back: figures that know their range and direction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pfedul.audit.intervals import Interval
from pfedul.audit.metrics import Metric


@dataclass(frozen=True)
class Figure:
    """One measured value, with the interval it came with, if any."""

    metric: Metric
    value: float
    interval: Interval | None = None


Figures = dict[str, Figure]
"""Name of the metric -> what was measured."""


def by_name(*figures: Figure) -> Figures:
    """Figures under the names of their metrics."""
    return {figure.metric.name: figure for figure in figures}


@dataclass(frozen=True)
class Attack:
    """An entry of the list: `oracles` and `unlearned` are the fewest models that `run` accepts.

    That is what it takes to run, not to be believed: every figure is to be read
    next to the same figure of an oracle that plays the candidate.
    """

    name: str
    summary: str
    paper: str
    metrics: tuple[Metric, ...]
    oracles: int
    unlearned: int
    run: Callable[..., Any]
