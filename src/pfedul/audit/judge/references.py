"""The oracles of one test, and what follows from them: differences, their errors, shares.

How the errors are put together, and why, is said in `paired_test`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

from pfedul.audit.attacks.base import Estimate, Metric
from pfedul.audit.attacks.intervals import freedom_of_sum, ratio_interval, student_quantile
from pfedul.audit.judge.placements import Placed, mean_placed

DIFFERENCE = Metric("difference in AUC", best=0.0, low=-1.0)
"""AUC of a model minus the mean AUC of the oracles, on the same samples."""
REMOVED = Metric("share of the leak removed", best=1.0, higher_is_better=True, low=-math.inf)
"""Of what the untouched model gives away beyond the oracles."""

GUESSED_BETWEEN = 0.02
"""Standard deviation of AUC from one retraining to the next, before any was seen."""
WEIGHT_OF_GUESS = 2
"""In oracles."""

_ERROR_RATE = 0.05
_POWER = 0.8


@dataclass(frozen=True, eq=False)
class References:
    """The oracles, and what follows from them."""

    oracles: tuple[Placed, ...]
    tests: int

    @cached_property
    def mean(self) -> Placed:
        return mean_placed(self.oracles)

    @cached_property
    def spread(self) -> float:
        """An oracle's distance from the mean of the others is N / (N - 1) of that from all."""
        count = len(self.oracles)
        if count == 1:
            return 0.0
        return max(abs((oracle - self.mean).value) for oracle in self.oracles) * count / (count - 1)

    @cached_property
    def between(self) -> float:
        """Variance from one retraining to the next, beyond sampling, moderated by the guess."""
        away = [oracle - self.mean for oracle in self.oracles]
        # both sums have N - 1 degrees of freedom: a mean was subtracted
        excess = sum(one.value**2 for one in away) - sum(one.variance for one in away)
        return (WEIGHT_OF_GUESS * GUESSED_BETWEEN**2 + max(0.0, excess)) / self.freedom

    @property
    def freedom(self) -> int:
        return len(self.oracles) - 1 + WEIGHT_OF_GUESS

    def errors(self, model: Placed) -> tuple[float, float]:
        """Standard error of the difference from the oracles, and its reach in such errors."""
        between = (1 + 1 / len(self.oracles)) * self.between
        parts = ((model - self.mean).variance, between)
        freedom = freedom_of_sum(parts, (math.inf, self.freedom))
        return math.sqrt(sum(parts)), student_quantile(quantile(self.tests), freedom)

    def difference(self, model: Placed) -> Estimate:
        error, reach = self.errors(model)
        return figure(DIFFERENCE, (model - self.mean).value, reach * error)

    def removed(self, model: Placed, before: Placed) -> Estimate | None:
        """The share of the leak before that is gone, with Fieller's interval at 95 %."""
        now, then, own = model - self.mean, before - self.mean, self.between / len(self.oracles)
        sampling = (now.variance, then.variance)
        both = (sum(sampling) - (now - then).variance) / 2 + own
        freedom = freedom_of_sum((sampling[0], self.between), (math.inf, self.freedom))
        left = ratio_interval(
            now.value,
            then.value,
            (sampling[0] + self.between + own, sampling[1] + self.between + own),
            both,
            student_quantile(quantile(1), freedom),
        )
        if left is None:
            return None
        return Estimate(REMOVED, 1 - now.value / then.value, (1 - left[1], 1 - left[0]))

    def smallest_visible(self, model: Placed) -> float:
        """To be accused a model must stand out from chance and from every oracle."""
        error, reach = self.errors(model)
        needed = max(self.spread, reach * error)
        return min(1.0, needed + NormalDist().inv_cdf(_POWER) * error)


def figure(metric: Metric, value: float, reach: float) -> Estimate:
    """A value and so much on either side, as far as the metric goes."""
    low, high = max(metric.low, value - reach), min(metric.high, value + reach)
    return Estimate(metric, value, (low, high))


def quantile(tests: int) -> float:
    """The probability up to which an interval reaches, corrected for the number of tests."""
    return 1 - _ERROR_RATE / tests / 2
