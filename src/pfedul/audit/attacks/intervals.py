"""How sure a figure is: exact intervals of shares, bootstrap intervals, and Student's t.

C. J. Clopper and E. S. Pearson, Biometrika 26 (1934): the interval of a share.
B. Efron, Annals of Statistics 7 (1979): the bootstrap; here percentile, each stratum
drawn from apart. It knows only what it was given: where all draws agree (an AUC of
exactly 1) it has no width.
E. C. Fieller, J. R. Statist. Soc. B 16 (1954): the interval of a ratio.
Student, Biometrika 6 (1908): how far to reach where the variance itself comes from a
few values. F. E. Satterthwaite, Biometrics Bulletin 2 (1946): how many values a sum
of variances is worth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfedul.base.randomness import numpy_generator
from pfedul.errors import PfedulError

Interval = tuple[float, float]
"""The low and the high end."""

_LEVEL = 0.95

DRAWS = 300
"""Bootstrap draws in an audit: there are many figures, and their ends need no third digit."""


def clopper_pearson(hits: int, trials: int) -> Interval:
    """The exact 95 % interval of a share of which `hits` of `trials` were seen."""
    if not (0 <= hits <= trials and trials > 0):
        raise PfedulError(f"A share needs 0 to n hits of n > 0 trials, not {hits} of {trials}.")
    from scipy.special import betaincinv  # imported here: scipy takes a while

    tail = (1 - _LEVEL) / 2
    low = float(betaincinv(hits, trials - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, trials - hits, 1 - tail)) if hits < trials else 1.0
    return low, high


def student_quantile(probability: float, freedom: float) -> float:
    """What Student's t stays below with this probability; infinite freedom is the normal law."""
    if not 0.5 <= probability < 1 or not freedom >= 1:
        raise PfedulError(
            f"Student's t is asked for here from probability 0.5 to below 1 and from one degree "
            f"of freedom, not {probability} and {freedom}."
        )
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))


def freedom_of_sum(variances: Sequence[float], freedoms: Sequence[float]) -> float:
    """Satterthwaite's degrees of freedom of a sum of independent estimates of variance."""
    doubt = sum(part**2 / freedom for part, freedom in zip(variances, freedoms, strict=True))
    return float(sum(variances) ** 2 / doubt) if doubt else math.inf


def ratio_interval(
    top: float, bottom: float, variances: Interval, covariance: float, reach: float
) -> Interval | None:
    """Fieller's interval of top / bottom: all r for which top - r * bottom could be 0.

    None where the bottom is not beyond chance above 0: then no r is excluded on one side.

    >>> ratio_interval(1.0, 2.0, (0.0, 0.0), 0.0, 1.96)
    (0.5, 0.5)
    """
    first = bottom**2 - reach**2 * variances[1]
    if bottom <= 0 or first <= 0:
        return None
    middle = bottom * top - reach**2 * covariance
    last = top**2 - reach**2 * variances[0]
    half = math.sqrt(max(0.0, middle**2 - first * last))
    return (middle - half) / first, (middle + half) / first


def stratified_bootstrap(
    strata: Sequence[NDArray[Any]],
    statistic: Callable[..., float],
    seed: int = 0,
    draws: int = 2000,
) -> Interval:
    """95 % percentile interval of `statistic(*strata)`; strata keep their size in each draw."""
    if not strata or not all(len(part) for part in strata) or draws < 1:
        raise PfedulError("A bootstrap needs at least one value in each stratum, and one draw.")
    stream = numpy_generator(seed, "stratified bootstrap")
    found = [
        statistic(*(part[stream.integers(len(part), size=len(part))] for part in strata))
        for _ in range(draws)
    ]
    low, high = np.quantile(found, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return float(low), float(high)
