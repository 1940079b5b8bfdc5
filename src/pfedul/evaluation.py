"""Accuracies of personal models, and what a removal did to them (PPS, CFI)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, pstdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfedul.base.randomness import numpy_generator
from pfedul.base.result import Result
from pfedul.errors import PfedulError


@dataclass(frozen=True)
class ClientScore:
    """One client's figures on its own test samples."""

    accuracy: float
    loss: float
    samples: int


@dataclass(frozen=True, repr=False)
class Evaluation(Result):
    """All clients' figures after a round. Every client counts alike, however large.

    Examples:
        >>> scores = {"a": ClientScore(0.5, 1.0, 10), "b": ClientScore(1.0, 0.1, 90)}
        >>> evaluation = Evaluation(3, scores)
        >>> evaluation.mean, evaluation.worst, evaluation.spread
        (0.75, 'a', 0.25)
    """

    round: int
    clients: Mapping[str, ClientScore]

    @property
    def mean(self) -> float:
        """Mean accuracy over clients."""
        return fmean(score.accuracy for score in self.clients.values())

    @property
    def worst(self) -> str:
        """The client with the lowest accuracy; the first by name where several have it."""
        return min(self.clients, key=lambda client: (self.clients[client].accuracy, client))

    @property
    def spread(self) -> float:
        """Standard deviation of accuracy over clients."""
        return pstdev(score.accuracy for score in self.clients.values())

    def _facts(self) -> dict[str, Any]:
        lowest = self.clients[self.worst].accuracy
        figures = {"mean": self.mean, "worst": self.worst, "lowest": lowest, "spread": self.spread}
        return {"round": self.round, **figures, "clients": len(self.clients)}

    def _rows(self) -> list[dict[str, Any]]:
        return [{"client": name, **asdict(score)} for name, score in self.clients.items()]

    def as_json(self) -> dict[str, Any]:
        """The evaluation as plain data."""
        return {
            "round": self.round,
            "mean": self.mean,
            "worst": {"client": self.worst, "accuracy": self.clients[self.worst].accuracy},
            "spread": self.spread,
            "clients": self._rows(),
        }


Accuracies = Mapping[str, float]
"""Client -> accuracy of its personal model on its own test samples."""


Ratios = Sequence[float] | NDArray[np.float64]
"""Accuracy after divided by accuracy before, one for each client that has one."""


@dataclass(frozen=True)
class Preservation:
    """PPS and CFI, the ratios they are made of, and the clients that have none.

    Both figures are NaN where no client has a ratio.
    """

    pps: float
    cfi: float
    ratios: Mapping[str, float]
    undefined: tuple[str, ...]


def preservation(before: Accuracies, after: Accuracies) -> Preservation:
    """What the remaining clients kept of their accuracy; leave the target out of both.

    >>> found = preservation({"a": 0.5, "b": 0.8, "c": 0.0}, {"a": 0.25, "b": 0.8, "c": 0.1})
    >>> found.pps, found.cfi, found.undefined
    (0.75, 0.75, ('c',))
    """
    _check(before, after)
    ratios = {client: after[client] / value for client, value in before.items() if value > 0}
    undefined = tuple(client for client in before if client not in ratios)
    values = list(ratios.values()) or [math.nan]
    figures = float(pps_of_ratios(values)), float(cfi_of_ratios(values))
    return Preservation(*figures, ratios, undefined)


def pps(before: Accuracies, after: Accuracies) -> float:
    """Personalisation preservation score, Eq. 14.

    >>> pps({"a": 0.5, "b": 0.8}, {"a": 0.25, "b": 0.8})
    0.75
    """
    return preservation(before, after).pps


def cfi(before: Accuracies, after: Accuracies) -> float:
    """Client fairness index, Eq. 15: a population standard deviation, as printed.

    >>> cfi({"a": 0.5, "b": 0.8}, {"a": 0.25, "b": 0.8})
    0.75
    """
    return preservation(before, after).cfi


def pps_of_ratios(ratios: Ratios) -> NDArray[np.float64]:
    """Eq. 14 from the ratios, over the last axis.

    >>> float(pps_of_ratios([0.5, 1.0]))
    0.75
    """
    return np.asarray(np.mean(ratios, axis=-1))


def cfi_of_ratios(ratios: Ratios) -> NDArray[np.float64]:
    """Eq. 15 from the ratios, over the last axis.

    >>> float(cfi_of_ratios([0.5, 1.0]))
    0.75
    """
    return np.asarray(1 - np.std(ratios, axis=-1))


def bootstrap_interval(
    values: Sequence[float],
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    seed: int = 0,
    draws: int = 2000,
    level: float = 0.95,
) -> tuple[float, float]:
    """Percentile interval of a statistic over clients, who are drawn with replacement.

    The statistic is computed over the last axis, for all draws at once.

    >>> bootstrap_interval([1.0, 1.0, 1.0], pps_of_ratios)
    (1.0, 1.0)
    >>> low, high = bootstrap_interval([0.9, 1.0, 1.1], pps_of_ratios)
    >>> 0.9 <= low < 1.0 < high <= 1.1
    True
    """
    if not len(values) or draws < 1 or not 0 < level < 1:
        raise PfedulError(
            "A bootstrap interval needs at least one value, one draw and a level between 0 and 1."
        )
    sample = np.asarray(values, dtype=np.float64)
    picks = numpy_generator(seed, "bootstrap").integers(len(sample), size=(draws, len(sample)))
    low, high = np.quantile(statistic(sample[picks]), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _check(before: Accuracies, after: Accuracies) -> None:
    if before.keys() != after.keys() or not before:
        odd = sorted(before.keys() ^ after.keys())
        which = f"'{odd[0]}' is in only one of them" if odd else "there are none"
        raise PfedulError(
            f"Accuracies before and after must be of the same remaining clients: {which}."
        )
    for client in before:
        if not all(math.isfinite(part[client]) and part[client] >= 0 for part in (before, after)):
            raise PfedulError(
                f"The accuracies of client '{client}' must be numbers from 0 up; measure it again."
            )
