"""What an aggregation is: replies of a round go in one by one, new shared tensors come out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from pfedul.base.tensors import Tensors

Share = float | dict[str, Tensor]
"""A client's share of an aggregate; for each value of each tensor where it differs between them."""


class Aggregate(Protocol):
    """The aggregate of one round.

    The new shared parameters are the old ones, plus each client's update times its share, plus
    `noise`. Shares and noise are known after `result`.
    """

    def add(self, client: str, tensors: Tensors, weight: float) -> None:
        """Take in a reply: the shared tensors as the client has them."""
        ...

    def result(self) -> Tensors:
        """The new shared tensors; nothing can be added after it."""
        ...

    def share(self, client: str) -> Share:
        """How much of the aggregate is the client's."""
        ...

    @property
    def noise(self) -> Tensors:
        """What the server itself added; empty for most aggregations."""
        ...


@dataclass(frozen=True)
class Aggregation:
    """An entry of the registry.

    `start` begins a round, given the options of the entry and the shared tensors. `weighted` says
    whether clients count by their samples, and by one number for all values. `memory` is what the
    server holds during a round.
    """

    name: str
    summary: str
    options: type[Any]
    start: Callable[[Any, Tensors], Aggregate]
    memory: str
    weighted: bool = False
