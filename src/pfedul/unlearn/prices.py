"""What rounds of training cost in CPU seconds, learnt from rounds that were seen.

A client costs something before its first batch (loading tensors, features of a frozen body,
staging the result), so that few batches are dearer than their share of many. And a batch of
a whole epoch may cost other than one of an epoch that is cut short: where a personalisation
trains in phases, each of them is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_LEAST = 1e-9
"""CPU seconds of a batch: a bound from below, so that no number of batches is free."""


@dataclass(frozen=True)
class Seen:
    """A round that was measured: its clients, their batches together, whole epochs or not."""

    clients: int
    batches: int
    whole: bool
    cpu_seconds: float


@dataclass(frozen=True)
class Prices:
    """CPU seconds of a client, of a batch of a shortened epoch, of one of a whole epoch."""

    client: float
    batch: float
    whole: float

    def of_round(self, sizes: Sequence[int], steps: int | None = None) -> float:
        """A round of clients with so many batches each: an epoch, or `steps` batches of one."""
        if steps is None:
            return self.client * len(sizes) + self.whole * sum(sizes)
        return self.client * len(sizes) + self.batch * sum(min(size, steps) for size in sizes)

    def most_steps(self, sizes: Sequence[int], seconds: float) -> int:
        """How many batches each client may train on, if it has so many, within these seconds.

        >>> prices = Prices(client=1, batch=1, whole=1)
        >>> prices.most_steps([3, 1], 6), prices.most_steps([3, 1], 5), prices.most_steps([3], 1.9)
        (3, 2, 0)
        """
        steps = 0
        while steps < max(sizes) and self.of_round(sizes, steps + 1) <= seconds:
            steps += 1
        return steps


def learnt(rounds: Sequence[Seen]) -> Prices:
    """Prices that fit these rounds best, by least squares; none of them is below zero.

    >>> found = learnt([Seen(2, 2, False, 8.0), Seen(2, 6, False, 12.0), Seen(1, 4, True, 11.0)])
    >>> [round(price, 6) for price in (found.client, found.batch, found.whole)]
    [3.0, 1.0, 2.0]
    """
    short = [one for one in rounds if not one.whole]
    client, batch = _fitted(short or rounds)
    whole = [one for one in rounds if one.whole]
    rest = sum(one.cpu_seconds - client * one.clients for one in whole)
    of_whole = rest / sum(one.batches for one in whole) if whole else batch
    return Prices(client, batch, max(of_whole, _LEAST))


def _fitted(rounds: Sequence[Seen]) -> tuple[float, float]:
    """Of a client and of a batch, so that both together come closest to what was seen."""
    counts = np.array([(one.clients, one.batches) for one in rounds], dtype=float)
    cost = np.array([one.cpu_seconds for one in rounds])
    client, batch = np.linalg.lstsq(counts, cost)[0]
    if client >= 0 and batch > 0:
        return float(client), float(batch)
    return 0.0, max(float(cost.sum() / counts[:, 1].sum()), _LEAST)
