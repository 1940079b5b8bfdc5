"""Dealing samples out by shares: the one place where rounding happens."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Shares = NDArray[np.float64]


def deal(labels: NDArray[np.int64], shares: Shares, rng: np.random.Generator) -> list[Indices]:
    """For each client the indices of its samples, at most one client for each sample.

    `shares[c, k]` is the fraction of class c that client k gets; rows sum to at
    most 1, and where they sum to 1 no sample is left over. What rounding takes
    from a client in one class it is first to get back in the next: otherwise the
    same clients would lose in every class, and with few samples get none at all.
    """
    hands: list[list[Indices]] = [[] for _ in range(shares.shape[1])]
    owed = np.zeros(shares.shape[1])
    for label, row in enumerate(shares):
        shuffled = rng.permutation(np.flatnonzero(labels == label))
        counts = whole_counts(row * len(shuffled), owed)
        owed += row * len(shuffled) - counts
        # What lies behind the last cut is nobody's.
        for hand, piece in zip(hands, np.split(shuffled, np.cumsum(counts)), strict=False):
            hand.append(piece)
    return [np.sort(np.concatenate(hand)) for hand in hands]


def whole_counts(ideal: Shares, owed: Shares) -> Indices:
    """`ideal` rounded down or up each, so that the sum is kept; up where most is owed.

    >>> whole_counts(np.array([1.5, 1.5, 0.0]), np.array([0.0, 0.2, 0.9])).tolist()
    [1, 2, 0]
    """
    counts = np.floor(ideal).astype(np.int64)
    part = ideal - counts
    # Who is to get nothing of a class gets nothing of it, however much is owed.
    most_owed_first = np.argsort(np.where(part > 0, -(part + owed), np.inf), kind="stable")
    counts[most_owed_first[: round(ideal.sum()) - counts.sum()]] += 1
    return counts
