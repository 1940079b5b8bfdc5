"""How well each client is served by its own personal model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, pstdev


@dataclass(frozen=True)
class ClientScore:
    """One client's figures on its own test samples."""

    accuracy: float
    loss: float
    samples: int


@dataclass(frozen=True)
class Evaluation:
    """All clients' figures after a round. Every client counts alike, however large.

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
