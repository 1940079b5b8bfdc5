"""How sure a figure is: exact intervals of shares, bootstrap intervals, and the power of a test.

C. J. Clopper and E. S. Pearson, Biometrika 26 (1934): the interval of a share.
B. Efron, Annals of Statistics 7 (1979): the bootstrap; here percentile, each stratum
drawn from apart. It knows only what it was given: where all draws agree (an AUC of
exactly 1) it has no width.
J. A. Hanley and B. J. McNeil, Radiology 143 (1982): the variance of an AUC, from which
follows the smallest AUC that so many samples can tell from chance.
Student, Biometrika 6 (1908): how far to reach where the variance itself comes from a
few values. F. E. Satterthwaite, Biometrics Bulletin 2 (1946): how many values a sum
of variances is worth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfedul.base.randomness import numpy_generator
from pfedul.errors import PfedulError

Interval = tuple[float, float]
"""The low and the high end."""

Array = NDArray[np.float64]

_HALVINGS = 60  # of [0, 1]: finer than a float64 can tell

_NEARLY_NORMAL = 1e6  # degrees of freedom

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)  # for a smooth integral from -1 to 1


def clopper_pearson(hits: int, trials: int, level: float = 0.95) -> Interval:
    """The exact interval of a share of which `hits` of `trials` were seen.

    Without a single hit the upper end solves (1 - p)^n = (1 - level) / 2.

    >>> low, high = clopper_pearson(0, 10)
    >>> low, round(high, 4) == round(1 - 0.025 ** (1 / 10), 4)
    (0.0, True)
    """
    if not (0 <= hits <= trials and trials > 0 and 0 < level < 1):
        raise PfedulError(
            f"A share needs 0 to n hits of n > 0 trials and a level between 0 and 1, "
            f"not {hits} of {trials} at {level}."
        )
    tail = (1 - level) / 2
    low = _share_with_tail(hits, trials, tail) if hits else 0.0
    high = 1 - _share_with_tail(trials - hits, trials, tail) if hits < trials else 1.0
    return low, high


def _share_with_tail(hits: int, trials: int, tail: float) -> float:
    """The share of which `hits` or more come with probability `tail`; a beta quantile."""
    counts = np.arange(hits, trials + 1, dtype=np.float64)
    ways = np.array([_log_binomial(trials, int(count)) for count in counts])

    def at_least(share: float) -> float:
        chances = ways + counts * math.log(share) + (trials - counts) * math.log1p(-share)
        return float(np.exp(chances).sum())

    return _first_where(lambda share: at_least(share) >= tail, 0.0, 1.0)


def _log_binomial(total: int, chosen: int) -> float:
    return math.lgamma(total + 1) - math.lgamma(chosen + 1) - math.lgamma(total - chosen + 1)


def _first_where(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Where a condition that holds from some point on begins to hold, by halving."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def student_quantile(probability: float, freedom: float) -> float:
    """What Student's t stays below with this probability; infinite freedom is the normal law.

    >>> round(student_quantile(0.975, 1), 3), round(student_quantile(0.975, math.inf), 3)
    (12.706, 1.96)
    """
    if not 0.5 <= probability < 1 or not freedom >= 1:
        raise PfedulError(
            f"Student's t is asked for here from probability 0.5 to below 1 and from one degree "
            f"of freedom, not {probability} and {freedom}."
        )
    if freedom > _NEARLY_NORMAL:
        return NormalDist().inv_cdf(probability)
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(math.pi) / 2

    def reached(angle: float) -> bool:
        # with t = sqrt(freedom) tan(angle) the density is a power of the cosine
        powers = np.cos(angle / 2 * (_NODES + 1)) ** (freedom - 1)
        return 0.5 + math.exp(scale) * angle / 2 * float(_WEIGHTS @ powers) >= probability

    return math.sqrt(freedom) * math.tan(_first_where(reached, 0.0, math.pi / 2))


def freedom_of_sum(variances: Sequence[float], freedoms: Sequence[float]) -> float:
    """Satterthwaite's degrees of freedom of a sum of independent estimates of variance.

    >>> freedom_of_sum([1.0, 1.0], [4, 4])
    8.0
    >>> freedom_of_sum([1.0, 0.0], [math.inf, 4])
    inf
    """
    doubt = sum(part**2 / freedom for part, freedom in zip(variances, freedoms, strict=True))
    return float(sum(variances) ** 2 / doubt) if doubt else math.inf


def stratified_bootstrap(
    strata: Sequence[NDArray[Any]],
    statistic: Callable[..., float],
    seed: int = 0,
    draws: int = 2000,
    level: float = 0.95,
) -> Interval:
    """Percentile interval of `statistic(*strata)`; every stratum keeps its size in each draw.

    >>> def gap(left, right):
    ...     return float(left.mean() - right.mean())
    >>> stratified_bootstrap([np.ones(5), np.zeros(3)], gap)
    (1.0, 1.0)
    """
    if not strata or not all(len(part) for part in strata) or draws < 1 or not 0 < level < 1:
        raise PfedulError(
            "A bootstrap needs at least one value in each stratum, one draw "
            "and a level between 0 and 1."
        )
    stream = numpy_generator(seed, "stratified bootstrap")
    found = [
        statistic(*(part[stream.integers(len(part), size=len(part))] for part in strata))
        for _ in range(draws)
    ]
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def auc_variance(auc: float, members: int, nonmembers: int) -> float:
    """Hanley and McNeil's variance; at 0.5 it is that of Mann and Whitney.

    >>> math.isclose(auc_variance(0.5, 3, 4), (3 + 4 + 1) / (12 * 3 * 4))
    True
    """
    two_members, two_nonmembers = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    spread = auc * (1 - auc)
    spread += (members - 1) * (two_members - auc**2)
    spread += (nonmembers - 1) * (two_nonmembers - auc**2)
    return spread / (members * nonmembers)


def smallest_visible_auc(
    members: int, nonmembers: int, level: float = 0.95, power: float = 0.8
) -> float:
    """The smallest AUC above 0.5 that a two-sided test would tell from 0.5 with this power.

    Infinite where even an AUC of 1 would not stand out. What lies below was not
    excluded by a test that found nothing.

    >>> smallest_visible_auc(1, 1)
    inf
    >>> round(smallest_visible_auc(200, 200), 2)
    0.58
    """
    if members < 1 or nonmembers < 1 or not 0 < level < 1 or not 0 < power < 1:
        raise PfedulError(
            "The power of a test needs at least one member and one non-member, "
            "and a level and a power between 0 and 1."
        )
    certainty = NormalDist().inv_cdf((1 + level) / 2)
    needed = certainty * math.sqrt(auc_variance(0.5, members, nonmembers))
    reserve = NormalDist().inv_cdf(power)

    def visible(auc: float) -> bool:
        return auc - 0.5 >= needed + reserve * math.sqrt(auc_variance(auc, members, nonmembers))

    return _first_where(visible, 0.5, 1.0) if visible(1.0) else math.inf
