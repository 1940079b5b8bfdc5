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
from dataclasses import dataclass, field

from pfedul.audit.attacks.arrays import same_samples
from pfedul.audit.attacks.base import Estimate, Metric
from pfedul.audit.attacks.intervals import student_quantile
from pfedul.audit.attacks.roc import AUC
from pfedul.audit.judge.placements import Placed, Scores, mean_placed, placed
from pfedul.audit.judge.references import References, figure, quantile
from pfedul.errors import PfedulError

REDUCTION = Metric("reduction of AUC", best=1.0, higher_is_better=True, low=-1.0)
"""AUC of the untouched model minus that of the candidate, on the same samples."""

MATERIAL_SHARE = 0.1
"""Of the leak: less than this is not called a reduction; one more round moves it as much."""

_ROUNDING = 1e-9  # differences of equal AUCs are 1e-17, not 0


@dataclass(frozen=True, eq=False)
class Compared:
    """The models of one test, sample by sample: tests that share samples can be averaged."""

    candidate: Placed
    untouched: Placed
    oracles: tuple[Placed, ...]


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
    compared: Compared | None = field(default=None, repr=False, compare=False)

    @property
    def leaked(self) -> bool:
        """Was there something to forget: does the untouched model stand out from the oracles?"""
        return self.untouched_difference is not None and _stands_out(
            self.untouched_difference, self.spread
        )


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
    references = References(tuple(placed(scores, worst) for scores in oracles), tests)
    ours = placed(candidate, worst)
    before = None if untouched is None else placed(untouched, worst)
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
        compared=None if before is None else Compared(ours, before, references.oracles),
    )


def overall_removed(tests: Sequence[PairedTest]) -> Estimate | None:
    """The share removed over all tests that saw a leak before, each by the size of its leak.

    That is the share of their mean leak. Placements are averaged sample by sample, for each
    model, so errors that tests have in common count fully and others cancel.
    """
    found = [test.compared for test in tests if test.leaked and test.compared is not None]
    if not found:
        return None
    by_oracle = zip(*(models.oracles for models in found), strict=True)
    oracles = References(tuple(mean_placed(several) for several in by_oracle), tests=1)
    ours, before = (
        mean_placed([getattr(models, name) for models in found])
        for name in ("candidate", "untouched")
    )
    return oracles.removed(ours, before)


def _reduction(fallen: Placed, tests: int) -> Estimate:
    """How far the AUC fell between these two models: sampling is its only error."""
    error = math.sqrt(fallen.variance)
    return figure(REDUCTION, fallen.value, student_quantile(quantile(tests), math.inf) * error)


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


def _auc(model: Placed) -> Estimate:
    """With the 95 % interval over samples; where no placement differs it has no width."""
    reach = student_quantile(quantile(1), math.inf) * math.sqrt(model.variance)
    return figure(AUC, model.value, reach)


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
