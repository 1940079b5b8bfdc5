"""One attack, one surface: does the candidate differ from oracles, and from the untouched model?

Every model is judged on the same samples, so differences are paired: E. R. DeLong, D. M.
DeLong, D. L. Clarke-Pearson, "Comparing the areas under two or more correlated receiver
operating characteristic curves", Biometrics 44 (1988). Each sample has a placement, the
share of the other group that it beats; their mean is the AUC, their variance its sampling
error, and placements of several models are averaged and subtracted sample by sample.
What a bootstrap of samples would approach with many draws, this has in closed form.

What differs: samples are not the only source of chance. Two retrainings differ beyond
what their samples explain, and N of them tell how much with N - 1 degrees of freedom:
two say next to nothing, and may agree by luck. So

    variance of (candidate - mean of N oracles) = sampling variance + (1 + 1/N) between^2

where `between` is the part of the oracles' own scatter that sampling does not explain,
pooled with the guess that retrainings differ by 0.02 in AUC, a guess that weighs as much
as two further oracles (as G. K. Smyth, Stat. Appl. Genet. Mol. Biol. 3 (2004), moderates
a variance of few values). The reach is Student's t with Satterthwaite's degrees of freedom, at
the level 1 - 0.05 / tests (Bonferroni). A candidate differs from the oracles if the
interval excludes 0 *and* it lies further out than any oracle does from the others; an
oracle's double is therefore never accused.

Failing to reject is weak evidence if the test has low power. So a candidate is "within" the
oracles only if it also differs from the untouched model, in two ways: its AUC fell, on these
samples; and the interval of its difference from the oracles excludes a leak as large as the
untouched model's. Without the second, a candidate that kept half of a leak would pass many
audits with few samples. `bench/verdicts.py` shows by simulation what these rules
give, and what errors of samples alone would give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np

from pfedul.audit.attacks.arrays import Array, finite, same_samples
from pfedul.audit.attacks.base import Estimate, Metric
from pfedul.audit.attacks.intervals import freedom_of_sum, ratio_interval, student_quantile
from pfedul.audit.attacks.roc import AUC, share_below
from pfedul.errors import PfedulError

DIFFERENCE = Metric("difference in AUC", best=0.0, low=-1.0)
"""AUC of a model minus the mean AUC of the oracles, on the same samples."""
REDUCTION = Metric("reduction of AUC", best=1.0, higher_is_better=True, low=-1.0)
"""AUC of the untouched model minus that of the candidate, on the same samples."""
REMOVED = Metric("share of the leak removed", best=1.0, higher_is_better=True, low=-math.inf)
"""Of what the untouched model gives away beyond the oracles."""

GUESSED_BETWEEN = 0.02
"""Standard deviation of AUC from one retraining to the next, before any was seen."""
WEIGHT_OF_GUESS = 2
"""In oracles."""
MATERIAL_SHARE = 0.1
"""Of the leak: less than this is not called a reduction; one more round moves it as much."""

_ERROR_RATE = 0.05
_POWER = 0.8
_ROUNDING = 1e-9  # differences of equal AUCs are 1e-17, not 0


@dataclass(frozen=True, eq=False)
class Scores:
    """Suspicion of membership under one model, higher = more like a member.

    A view is one model through which the attacker looks (a remaining client's); a fold
    is one choice of reference models (RMIA), otherwise there is one. All models that are
    compared have the same samples and views; folds may differ in number.
    """

    members: Array
    nonmembers: Array

    def __post_init__(self) -> None:
        for name in ("members", "nonmembers"):
            values = finite(f"scores of {name}", getattr(self, name), axes=3)
            object.__setattr__(self, name, values)
            if values.shape[2] < 2:
                raise PfedulError(f"A comparison needs two {name} or more, to know its error.")
        if self.members.shape[:2] != self.nonmembers.shape[:2]:
            raise PfedulError("Members and non-members must be scored in the same folds and views.")


@dataclass(frozen=True)
class PairedTest:
    """What one attack says of the candidate; names as in the evidence document.

    `spread` is how far one oracle lies from the mean of the others, at most.
    `smallest_visible` is the leak that this test would have seen with 80 % power. `removed` is the
    share of the leak that is gone; None if there was none beyond chance.
    """

    candidate: Estimate
    oracles: tuple[Estimate, ...]
    untouched: Estimate | None
    difference: Estimate
    spread: float
    untouched_difference: Estimate | None
    reduction: Estimate | None
    smallest_visible: float
    finding: str
    removed: Estimate | None = None


def paired_test(
    candidate: Scores,
    oracles: Sequence[Scores],
    untouched: Scores | None = None,
    *,
    worst: bool = False,
    tests: int = 1,
) -> PairedTest:
    """The candidate compared with oracles and, unless it is after the fact, the untouched model.

    The statistic is the AUC, averaged over folds, then over views, or of the view with
    the highest if `worst`. `tests` is how many comparisons the whole audit makes. With a
    single oracle only the guess is known of the spread of retraining.
    """
    _check(candidate, oracles, untouched, tests)
    references = _References(tuple(_placed(scores, worst) for scores in oracles), tests)
    ours = _placed(candidate, worst)
    before = None if untouched is None else _placed(untouched, worst)
    difference = references.difference(ours)
    start = None if before is None else references.difference(before)
    reduction = None if before is None else _reduction(before - ours, tests)
    return PairedTest(
        candidate=_auc(ours),
        oracles=tuple(_auc(oracle) for oracle in references.oracles),
        untouched=None if before is None else _auc(before),
        difference=difference,
        spread=references.spread,
        untouched_difference=start,
        reduction=reduction,
        smallest_visible=references.smallest_visible(ours),
        finding=_finding(_auc(ours), difference, start, reduction, references.spread),
        removed=None if before is None else references.removed(ours, before),
    )


@dataclass(frozen=True, eq=False)
class _Placed:
    """Placements of members and non-members; both have the AUC as their mean."""

    members: Array
    nonmembers: Array

    def __sub__(self, other: _Placed) -> _Placed:
        return _Placed(self.members - other.members, self.nonmembers - other.nonmembers)

    @property
    def value(self) -> float:
        return float(self.members.mean())

    @property
    def variance(self) -> float:
        groups = (self.members, self.nonmembers)
        return float(sum(group.var(ddof=1) / len(group) for group in groups))


@dataclass(frozen=True, eq=False)
class _References:
    """The oracles, and what follows from them."""

    oracles: tuple[_Placed, ...]
    tests: int

    @cached_property
    def mean(self) -> _Placed:
        return _mean(self.oracles)

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

    def errors(self, model: _Placed) -> tuple[float, float]:
        """Standard error of the difference from the oracles, and its reach in such errors."""
        between = (1 + 1 / len(self.oracles)) * self.between
        parts = ((model - self.mean).variance, between)
        freedom = freedom_of_sum(parts, (math.inf, self.freedom))
        return math.sqrt(sum(parts)), student_quantile(_quantile(self.tests), freedom)

    def difference(self, model: _Placed) -> Estimate:
        error, reach = self.errors(model)
        return _figure(DIFFERENCE, (model - self.mean).value, reach * error)

    def removed(self, model: _Placed, before: _Placed) -> Estimate | None:
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
            student_quantile(_quantile(1), freedom),
        )
        if left is None:
            return None
        return Estimate(REMOVED, 1 - now.value / then.value, (1 - left[1], 1 - left[0]))

    def smallest_visible(self, model: _Placed) -> float:
        """To be accused a model must stand out from chance and from every oracle."""
        error, reach = self.errors(model)
        needed = max(self.spread, reach * error)
        return min(1.0, needed + NormalDist().inv_cdf(_POWER) * error)


def overall_removed(tests: Sequence[PairedTest]) -> Estimate | None:
    """The share of the leak removed over all tests in which there was one; each by its leak.

    The ends are averaged with the same weights: as if the errors of all tests agreed, which is
    rather too wide.
    """
    found = [
        (test.removed, test.untouched_difference.value)
        for test in tests
        if test.removed is not None and test.untouched_difference is not None
    ]
    if not found:
        return None
    total = sum(weight for _, weight in found)
    value = sum(weight * one.value for one, weight in found) / total
    low, high = (sum(w * one.ends[end] for one, w in found) / total for end in (0, 1))
    return Estimate(REMOVED, value, (low, high))


def _reduction(fallen: _Placed, tests: int) -> Estimate:
    """How far the AUC fell between these two models: sampling is its only error."""
    error = math.sqrt(fallen.variance)
    return _figure(REDUCTION, fallen.value, student_quantile(_quantile(tests), math.inf) * error)


def _finding(
    auc: Estimate,
    difference: Estimate,
    start: Estimate | None,
    reduction: Estimate | None,
    spread: float,
) -> str:
    """Nothing can be forgotten that was not there: the untouched model is asked as well.

    A reduction counts if it is beyond chance, beyond the spread of retraining and no
    mere trifle of the leak. Below the oracles samples stand out only where the attack,
    turned round, would find them: with the whole interval below 0.5. A head that a
    target fitted to an oracle leaks by itself, and leaking less than that is not a fault.
    """
    if auc.ends[1] < AUC.best and _stands_out(_negative(difference), spread):
        return "below"
    leaks = _stands_out(difference, spread)
    if start is None or reduction is None:
        return "leak" if leaks else "within"
    reduced = _stands_out(reduction, max(spread, MATERIAL_SHARE * start.value))
    if leaks:
        return "reduced leak" if reduced else "leak"
    if not _stands_out(start, spread):
        return "nothing to see"
    return "within" if reduced and difference.ends[1] < start.value else "unclear"


def _stands_out(figure: Estimate, least: float) -> bool:
    """Beyond 0 with its whole interval, and beyond `least` itself."""
    return figure.ends[0] > _ROUNDING and figure.value > least + _ROUNDING


def _negative(figure: Estimate) -> Estimate:
    low, high = figure.ends
    return Estimate(figure.metric, -figure.value, (-high, -low))


def _placed(scores: Scores, worst: bool) -> _Placed:
    """Placements averaged over folds and views; if `worst` those of the most revealing view.

    The error of a maximum is taken for that of the view where it is: rather too wide.
    """
    by_view = scores.members.swapaxes(0, 1), scores.nonmembers.swapaxes(0, 1)
    views = [
        _mean([_placements(*fold) for fold in zip(*view, strict=True)])
        for view in zip(*by_view, strict=True)
    ]
    return max(views, key=lambda view: view.value) if worst else _mean(views)


def _placements(members: Array, nonmembers: Array) -> _Placed:
    return _Placed(share_below(members, nonmembers), 1 - share_below(nonmembers, members))


def _mean(parts: Sequence[_Placed]) -> _Placed:
    return _Placed(
        np.mean([part.members for part in parts], axis=0),
        np.mean([part.nonmembers for part in parts], axis=0),
    )


def _auc(placed: _Placed) -> Estimate:
    """With the 95 % interval over samples; where no placement differs it has no width."""
    reach = student_quantile(_quantile(1), math.inf) * math.sqrt(placed.variance)
    return _figure(AUC, placed.value, reach)


def _figure(metric: Metric, value: float, reach: float) -> Estimate:
    low, high = max(metric.low, value - reach), min(metric.high, value + reach)
    return Estimate(metric, value, (low, high))


def _quantile(tests: int) -> float:
    return 1 - _ERROR_RATE / tests / 2


def _check(
    candidate: Scores, oracles: Sequence[Scores], untouched: Scores | None, tests: int
) -> None:
    if not oracles or tests < 1:
        raise PfedulError("A comparison needs at least one oracle, and counts as one test or more.")
    for other in (*oracles, *([untouched] if untouched else [])):
        same_samples("scores of members", candidate.members, other.members)
        same_samples("scores of nonmembers", candidate.nonmembers, other.nonmembers)
        if candidate.members.shape[1] != other.members.shape[1]:
            raise PfedulError("All models must be seen through the same number of views.")
