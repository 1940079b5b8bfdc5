"""Leaks without oracles: members and non-members are a random split, so no leak is an AUC of 1/2.

Which of its samples a target trained on was drawn by lot. A model that never saw them answers both
kinds alike, whatever it is: its AUC is 1/2 but for the luck of the draw, and what luck does is
known exactly, by drawing again (R. A. Fisher, The Design of Experiments, 1935). With so many
draws at random the p-value is (1 + hits) / (1 + draws), which is exact as well (M. Dwass, Annals
of Mathematical Statistics 28 (1957)).

That holds for the remaining models and the probe. The target's old head did see the members: on
features that are like the old ones its AUC is above 1/2, even where these know nothing of them.

A split may be drawn class by class, and some classes are harder than others. So every score
becomes its percentile among the target's samples of the same class (its *stratum*), and lots are
drawn again within classes only. Percentiles of any stratum are symmetric about 1/2, so the
expected AUC is exactly 1/2; and differences between classes no longer hide a leak.

AUCs of one row of scores per model are linear in the ranks. So several views (the remaining
clients' models), or several surfaces, are averaged sample by sample. Errors are those of DeLong
(see `paired_test`); the share of a leak that is left is a ratio of two leaks on the same samples,
and its interval is E. C. Fieller's (J. R. Statist. Soc. B 16 (1954)): all shares r for which
"leak after - r * leak before" could be 0. Unlike a bootstrap of the ratio it stays right where the
leak before is small: it is then unbounded, and said to be unknown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from pfedul.audit.attacks.arrays import Array, Whole
from pfedul.audit.attacks.intervals import Interval, ratio_interval
from pfedul.audit.attacks.roc import share_below
from pfedul.base.randomness import numpy_generator

Lots = NDArray[np.bool_]
"""For each draw (row) which samples (columns) are called members."""

DRAWS = 1999
"""Lots that are drawn again: the smallest p-value is 1 in 2,000."""
NO_LEAK = 0.5
REACH = NormalDist().inv_cdf(0.975)

_ROUNDING = 1e-9  # sums of the same ranks in another order differ by 1e-13


@dataclass(frozen=True, eq=False)
class Draw:
    """How the split came out: who is a member, in which stratum, and how it could have come out."""

    member: Lots
    strata: Whole
    others: Lots

    @classmethod
    def of(cls, members: Whole, nonmembers: Whole, seed: int = 0, draws: int = DRAWS) -> Draw:
        """From the strata of members and of non-members, in the order of their scores."""
        member = np.arange(len(members) + len(nonmembers)) < len(members)
        strata = np.concatenate([members, nonmembers])
        return cls(member, strata, drawn_again(member, strata, seed, draws))

    def p_values(self, ranks: Array) -> tuple[float, float]:
        """How often another draw gives an AUC as high as this one, and one as low.

        >>> draw = Draw.of(np.zeros(5, dtype=int), np.zeros(5, dtype=int))
        >>> high, low = draw.p_values(np.arange(10.0)[::-1])
        >>> high < 0.01, low == 1
        (True, True)
        """
        found, sums = ranks[self.member].sum(), self.others @ ranks
        slack = _ROUNDING * max(1.0, float(np.abs(ranks).sum()))
        above, below = (sums >= found - slack).sum(), (sums <= found + slack).sum()
        return float((1 + above) / (1 + len(sums))), float((1 + below) / (1 + len(sums)))


def drawn_again(member: Lots, strata: Whole, seed: int, draws: int) -> Lots:
    """Other draws of the same split: each stratum keeps its number of members.

    >>> lots = drawn_again(np.array([True, False, True]), np.array([0, 0, 1]), 0, 50)
    >>> lots[:, 2].all(), lots[:, :2].sum(axis=1).tolist() == [1] * 50
    (np.True_, True)
    """
    order = np.argsort(strata, kind="stable")
    keys = numpy_generator(seed, "lots").random((draws, len(member)))
    lots = np.empty((draws, len(member)), dtype=np.bool_)
    for places in np.split(order, np.flatnonzero(np.diff(strata[order])) + 1):
        lots[:, places] = _smallest(keys[:, places], int(member[places].sum()))
    return lots


def _smallest(keys: Array, count: int) -> Lots:
    """The `count` smallest keys of each row."""
    if not count:
        return np.zeros(keys.shape, dtype=np.bool_)
    return keys <= np.partition(keys, count - 1, axis=1)[:, count - 1 : count]


def percentiles(scores: Array, strata: Whole) -> Array:
    """Each score's percentile among the scores of its stratum.

    >>> percentiles(np.array([1.0, 5.0, 90.0, 70.0]), np.array([0, 0, 1, 1]))
    array([0.25, 0.75, 0.75, 0.25])
    """
    found = np.empty(len(scores))
    for stratum in np.unique(strata):
        places = strata == stratum
        found[places] = share_below(scores[places], scores[places])
    return found


@dataclass(frozen=True, eq=False)
class Leak:
    """What one model gives away through one surface: one AUC with all that its errors need.

    `ranks` are of all samples, members first; `members` and `nonmembers` are DeLong's placements.
    """

    ranks: Array
    members: Array
    nonmembers: Array

    @classmethod
    def of(cls, views: Array, draw: Draw) -> Leak:
        """From scores [views, samples], members first.

        >>> draw = Draw.of(np.zeros(2, dtype=int), np.zeros(2, dtype=int))
        >>> Leak.of(np.array([[4.0, 2.0, 1.0, 3.0]]), draw).auc
        0.75
        """
        return mean_leak([_leak(percentiles(view, draw.strata), draw.member) for view in views])

    @property
    def auc(self) -> float:
        return float(self.members.mean())

    @property
    def size(self) -> float:
        return self.auc - NO_LEAK

    def covariance(self, other: Leak) -> float:
        """Of two AUCs on the same samples; of one with itself its variance."""
        pairs = ((self.members, other.members), (self.nonmembers, other.nonmembers))
        return float(sum(_covariance(*pair) / len(pair[0]) for pair in pairs))

    @property
    def error(self) -> float:
        return math.sqrt(self.covariance(self))

    @property
    def interval(self) -> Interval:
        return max(0.0, self.auc - REACH * self.error), min(1.0, self.auc + REACH * self.error)


def _leak(scores: Array, member: Lots) -> Leak:
    inside, outside = scores[member], scores[~member]
    placed = share_below(inside, outside), 1 - share_below(outside, inside)
    return Leak(len(scores) * share_below(scores, scores), *placed)


def _covariance(one: Array, other: Array) -> float:
    return float((one - one.mean()) @ (other - other.mean())) / (len(one) - 1)


def mean_leak(leaks: Sequence[Leak]) -> Leak:
    """The mean over views or over surfaces, sample by sample."""
    parts = ("ranks", "members", "nonmembers")
    return Leak(*(np.mean([getattr(leak, part) for leak in leaks], axis=0) for part in parts))


def share_left(before: Leak, after: Leak) -> tuple[float, Interval] | None:
    """The share of the leak that is left, with its 95 % interval; None if it is not bounded.

    >>> draw = Draw.of(np.zeros(50, dtype=int), np.zeros(50, dtype=int))
    >>> spread = np.linspace(0, 1, 50)
    >>> known, unknown = (
    ...     Leak.of(np.concatenate([spread + more, spread])[None], draw) for more in (0.5, 0.0)
    ... )
    >>> share, (low, high) = share_left(known, unknown)
    >>> abs(share) < 1e-9, low < 0 < high < 0.5
    (True, True)
    >>> share_left(unknown, known) is None
    True
    """
    variances = after.covariance(after), before.covariance(before)
    sizes, shared = (after.size, before.size), before.covariance(after)
    interval = ratio_interval(*sizes, variances, shared, REACH)
    return None if interval is None else (after.size / before.size, interval)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected for their number (S. Holm, Scand. J. Statist. 6 (1979)).

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order, corrected, largest = np.argsort(p_values), [0.0] * len(p_values), 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[index]))
        corrected[index] = largest
    return corrected
