"""What an attack is, what it looks at, and the estimates that it gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from pfedul.audit.attacks.arrays import Array, Whole
from pfedul.audit.attacks.intervals import Interval
from pfedul.base.registry import NoOptions


@dataclass(frozen=True)
class Metric:
    """What tables and plots must know about a metric; `best` is the ideal value."""

    name: str
    best: float
    higher_is_better: bool | None = None
    low: float = 0.0
    high: float = 1.0


@dataclass(frozen=True)
class Estimate:
    """A measured value of a metric, with its interval if there is one."""

    metric: Metric
    value: float
    interval: Interval | None = None

    @property
    def ends(self) -> Interval:
        """The interval; a figure without one is taken for exact."""
        return self.interval if self.interval is not None else (self.value, self.value)

    def as_json(self) -> dict[str, Any]:
        """As the evidence document has it."""
        interval = None if self.interval is None else [float(end) for end in self.interval]
        return {"value": float(self.value), "interval": interval}


def averaged(figures: Sequence[Estimate]) -> Estimate:
    """Mean of the values, and of the ends, of figures of one metric: as if their errors agreed.

    >>> half = Metric("share", best=1.0)
    >>> averaged([Estimate(half, 0.5, (0.4, 0.6)), Estimate(half, 0.7, (0.6, 0.8))]).as_json()
    {'value': 0.6, 'interval': [0.5, 0.7]}
    """
    ends = [figure.interval for figure in figures if figure.interval is not None]
    interval = (fmean(low for low, _ in ends), fmean(high for _, high in ends)) if ends else None
    return Estimate(figures[0].metric, fmean(figure.value for figure in figures), interval)


@dataclass(frozen=True, eq=False)
class Labels:
    """The true labels of members, non-members and population."""

    members: Whole
    nonmembers: Whole
    population: Whole


@dataclass(frozen=True, eq=False)
class View:
    """What one model answers: logits [samples, classes] of the three sets, and the true labels."""

    name: str
    members: Array
    nonmembers: Array
    population: Array
    labels: Labels


Pair = tuple[Array, Array]
"""Something of members and of non-members: scores, losses or features."""


@dataclass(frozen=True)
class Attack:
    """An entry of `ATTACKS`. It has a `score`, a `figure`, a `population` figure, or several.

    `explanation` is for readers of reports who do not train models: two sentences.

    `score(view, references)` gives every member and non-member a score that grows with the
    suspicion of membership. Such an attack is part of every test, control and report.
    `references` are the same view of oracles; with `needs_references` there is at least one.
    A `two_sided` attack fits its direction, so it also finds samples that stand out as
    unfamiliar. `roc` asks for its ROC curve in the report.

    `figure(view, draws)` is a figure of one model, with so many bootstrap draws. Attacks with
    a score and no figure show their true positive rate at 1 % false positives.

    `population(unlearned, oracles, draws)` compares margins [models, samples] of both kinds,
    given `fewest` models of each. If `everywhere`, it does so on the remaining clients' samples
    as well, and between two halves of the oracles.
    """

    name: str
    title: str
    summary: str
    explanation: str = ""
    paper: str = ""
    score: Callable[[View, Sequence[View]], Pair] | None = None
    needs_references: bool = False
    two_sided: bool = False
    roc: bool = True
    figure: Callable[[View, int], Estimate] | None = None
    population: Callable[[Array, Array, int], Estimate] | None = None
    fewest: int = 1
    everywhere: bool = False
    options: type[Any] = NoOptions

    def usable(self, oracles: int) -> bool:
        """Whether it can score with so many oracles, one of which is left out in turn."""
        return self.score is not None and (oracles >= 2 or not self.needs_references)
