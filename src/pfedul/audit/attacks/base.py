"""What an attack is, and what it hands back: figures that know their range and direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from pfedul.audit.attacks.intervals import Interval
from pfedul.base.metric import Metric


@dataclass(frozen=True)
class Figure:
    """One measured value, with the interval it came with, if any."""

    metric: Metric
    value: float
    interval: Interval | None = None

    def as_json(self) -> dict[str, Any]:
        """As the evidence document has it."""
        interval = None if self.interval is None else [float(end) for end in self.interval]
        return {"value": float(self.value), "interval": interval}


def averaged(figures: Sequence[Figure]) -> Figure:
    """Mean of the values, and of the ends, of figures of one metric: as if their errors agreed.

    >>> half = Metric("share", 1.0, 0.0, 1.0, True, "of something")
    >>> averaged([Figure(half, 0.5, (0.4, 0.6)), Figure(half, 0.7, (0.6, 0.8))]).as_json()
    {'value': 0.6, 'interval': [0.5, 0.7]}
    """
    ends = [figure.interval for figure in figures if figure.interval is not None]
    interval = (fmean(low for low, _ in ends), fmean(high for _, high in ends)) if ends else None
    return Figure(figures[0].metric, fmean(figure.value for figure in figures), interval)


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
