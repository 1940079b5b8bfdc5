"""What a partition is: a way to say which samples of a data set each client holds.

Most partitions are given by shares: the fraction of each class that goes to each client. The same
shares are applied to the training part and, separately, to the test part, so a client's two parts
follow the same distribution and the official separation of the two is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfedul.base.randomness import numpy_generator
from pfedul.data.checks import numbered_ids
from pfedul.data.datasets.base import Dataset
from pfedul.data.samples import Indices
from pfedul.errors import PfedulError

CLIENTS_UNLESS_SAID = 10

Shares = NDArray[np.float64]
"""The fraction of each class (row) that each client (column) gets."""


@dataclass(frozen=True)
class ClientIndices:
    """Which samples of the training part and of the test part a client holds."""

    train: Indices
    test: Indices


Holdings = dict[str, ClientIndices]
ShareRule = Callable[[int, int, np.random.Generator, Any], Shares]
Split = Callable[[Dataset, int | None, int, Any], Holdings]


@dataclass(frozen=True)
class PartitionKind:
    """A partition that users can choose; `split` takes data set, clients, seed and options."""

    name: str
    summary: str
    options: type[Any]
    split: Split


def by_shares(rule: ShareRule) -> Split:
    """The split that deals both parts by the shares that `rule` draws."""

    def split(dataset: Dataset, clients: int | None, seed: int, options: Any) -> Holdings:
        count = CLIENTS_UNLESS_SAID if clients is None else clients
        if count > len(dataset.train):
            raise PfedulError(
                f"There are {count} clients but only {len(dataset.train)} training samples; "
                "ask for fewer clients."
            )
        shares = rule(dataset.classes, count, numpy_generator(seed, "partition", "shares"), options)
        train, test = (
            deal(part.y.numpy(), shares, numpy_generator(seed, "partition", name))
            for name, part in (("train", dataset.train), ("test", dataset.test))
        )
        return dict(zip(numbered_ids(count), map(ClientIndices, train, test), strict=True))

    return split


def deal(labels: NDArray[np.int64], shares: Shares, rng: np.random.Generator) -> list[Indices]:
    """For each client the indices of its samples, at most one client for each sample.

    `shares[c, k]` is the fraction of class c that client k gets; if a row sums to less than 1,
    samples are left over. A client that lost by rounding in one class is first to gain in the
    next: otherwise the same clients would lose in every class, and may get no samples at all.
    """
    hands: list[list[Indices]] = [[] for _ in range(shares.shape[1])]
    owed = np.zeros(shares.shape[1])
    for label, row in enumerate(shares):
        shuffled = rng.permutation(np.flatnonzero(labels == label))
        counts = whole_counts(row * len(shuffled), owed)
        owed += row * len(shuffled) - counts
        # Samples after the last cut are left over.
        for hand, piece in zip(hands, np.split(shuffled, np.cumsum(counts)), strict=False):
            hand.append(piece)
    return [np.sort(np.concatenate(hand)) for hand in hands]


def whole_counts(ideal: Shares, owed: Shares) -> Indices:
    """`ideal` each rounded down or up, keeping the sum; up where most is owed.

    >>> whole_counts(np.array([1.5, 1.5, 0.0]), np.array([0.0, 0.2, 0.9])).tolist()
    [1, 2, 0]
    """
    counts = np.floor(ideal).astype(np.int64)
    part = ideal - counts
    # A client without a share of a class gets none of it, however much it is owed.
    most_owed_first = np.argsort(np.where(part > 0, -(part + owed), np.inf), kind="stable")
    counts[most_owed_first[: round(ideal.sum()) - counts.sum()]] += 1
    return counts
