"""From scores of members and non-members to AUC, ROC curve and power at few false alarms.

Scores grow with the suspicion of membership. That averages hide what happens at few
false alarms is N. Carlini et al., IEEE S&P 2022 (arXiv 2112.03570); they read the
rate off an interpolated curve, here the false alarms are never above what was asked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pfedul.audit.attacks.arrays import Array, finite
from pfedul.audit.attacks.base import Estimate
from pfedul.audit.attacks.intervals import Interval, clopper_pearson, stratified_bootstrap
from pfedul.base.metric import Metric
from pfedul.errors import PfedulError

AUC = Metric(
    name="AUC",
    best=0.5,
    low=0.0,
    high=1.0,
    higher_is_better=None,
    summary="chance that a member looks more like one than a non-member does; "
    "below 0.5 the target stands out as well",
)
BALANCED_ACCURACY = Metric(
    name="balanced accuracy",
    best=0.5,
    low=0.0,
    high=1.0,
    higher_is_better=None,
    summary="mean of the shares of members and of non-members that the attack gets right",
)
TPR_AT_1_PERCENT = Metric(
    name="TPR at 1 % FPR",
    best=0.01,
    low=0.0,
    high=1.0,
    higher_is_better=False,
    summary="share of members found with at most 1 % of non-members accused",
)


def auc(members: ArrayLike, nonmembers: ArrayLike) -> float:
    """Mann and Whitney's share of pairs in which the member scores higher; ties count half.

    >>> auc([3, 2], [1, 2])
    0.875
    """
    return float(share_below(finite("scores of members", members), _nonmembers(nonmembers)).mean())


def share_below(scores: Array, others: Array) -> Array:
    """For each score the share of the others that it exceeds; ties count half.

    >>> share_below(np.array([3.0, 2.0]), np.array([1.0, 2.0]))
    array([1.  , 0.75])
    """
    ranked = np.sort(others)
    below = np.searchsorted(ranked, scores, side="left")
    not_above = np.searchsorted(ranked, scores, side="right")
    return np.asarray((below + not_above) / (2 * len(ranked)), dtype=np.float64)


def auc_figure(
    members: ArrayLike, nonmembers: ArrayLike, seed: int = 0, draws: int = 2000, level: float = 0.95
) -> Estimate:
    """AUC with its bootstrap interval over samples, members and non-members apart.

    >>> found = auc_figure([3.0, 4.0], [1.0, 2.0])
    >>> found.value, found.interval
    (1.0, (1.0, 1.0))
    """
    # sorted, so the draws do not depend on the order of samples
    strata = [np.sort(finite("scores of members", members)), np.sort(_nonmembers(nonmembers))]
    return Estimate(AUC, auc(*strata), stratified_bootstrap(strata, auc, seed, draws, level))


def roc(members: ArrayLike, nonmembers: ArrayLike) -> tuple[Array, Array]:
    """False and true positive rates at every threshold, from (0, 0) to (1, 1).

    For a plot with logarithmic axes leave out the points where either is 0.

    >>> roc([3, 2], [1, 2])
    (array([0. , 0. , 0.5, 1. ]), array([0. , 0.5, 1. , 1. ]))
    """
    inside, outside = finite("scores of members", members), _nonmembers(nonmembers)
    thresholds = np.append(np.unique(np.concatenate([inside, outside])), np.inf)[::-1]
    return _share_from(outside, thresholds), _share_from(inside, thresholds)


def _share_from(scores: Array, thresholds: Array) -> Array:
    share: Array = 1 - np.searchsorted(np.sort(scores), thresholds, side="left") / len(scores)
    return share


@dataclass(frozen=True)
class LowFalseAlarms:
    """Members found when few non-members may be accused, both rates with exact intervals."""

    threshold: float
    tpr: float
    tpr_interval: Interval
    fpr: float
    fpr_interval: Interval


def tpr_at_fpr(
    members: ArrayLike, nonmembers: ArrayLike, fpr: float = 0.01, level: float = 0.95
) -> LowFalseAlarms:
    """Call samples above a threshold members; at most floor(fpr n) of n non-members are.

    Below 1 / fpr non-members none may be accused. The interval of the true positive
    rate takes the threshold for given; how well so many non-members fix it is in the
    interval of the false positive rate.

    >>> found = tpr_at_fpr([5, 4, 3, 0], [1, 2, 3, 3], fpr=0.25)
    >>> found.threshold, found.tpr, found.fpr
    (3.0, 0.5, 0.0)
    """
    inside, outside = finite("scores of members", members), _nonmembers(nonmembers)
    if not 0 <= fpr < 1:
        raise PfedulError(f"The false positive rate must be from 0 to below 1, not {fpr}.")
    allowed = math.floor(fpr * len(outside) + 1e-9)  # 0.29 * 100 is 28.999... in floats
    threshold = np.sort(outside)[::-1][allowed]
    found, accused = int((inside > threshold).sum()), int((outside > threshold).sum())
    return LowFalseAlarms(
        threshold=float(threshold),
        tpr=found / len(inside),
        tpr_interval=clopper_pearson(found, len(inside), level),
        fpr=accused / len(outside),
        fpr_interval=clopper_pearson(accused, len(outside), level),
    )


def _nonmembers(scores: ArrayLike) -> Array:
    return finite("scores of non-members", scores)
