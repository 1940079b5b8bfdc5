"""From scores of members and non-members to AUC, ROC curve and power at few false alarms.

Scores grow with the suspicion of membership. That averages hide what happens at few
false alarms is N. Carlini et al., IEEE S&P 2022 (arXiv 2112.03570); they read the
rate off an interpolated curve, here the false alarms are never above what was asked.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from pfedul.audit.attacks.arrays import Array, finite
from pfedul.audit.attacks.base import Estimate, Metric
from pfedul.audit.attacks.intervals import clopper_pearson

AUC = Metric("AUC", best=0.5)
"""Chance that a member looks more like one than a non-member does; below 0.5 the target stands
out as well."""
BALANCED_ACCURACY = Metric("balanced accuracy", best=0.5)
"""Mean of the shares of members and of non-members that the attack gets right."""
TPR_AT_1_PERCENT = Metric("TPR at 1 % FPR", best=0.01, higher_is_better=False)
"""Share of members found with at most 1 % of non-members accused."""


def auc(members: ArrayLike, nonmembers: ArrayLike) -> float:
    """Mann and Whitney's share of pairs in which the member scores higher; ties count half."""
    return float(share_below(finite("scores of members", members), _nonmembers(nonmembers)).mean())


def share_below(scores: Array, others: Array) -> Array:
    """For each score the share of the others that it exceeds; ties count half."""
    ranked = np.sort(others)
    below = np.searchsorted(ranked, scores, side="left")
    not_above = np.searchsorted(ranked, scores, side="right")
    return np.asarray((below + not_above) / (2 * len(ranked)), dtype=np.float64)


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


def tpr_at_fpr(members: ArrayLike, nonmembers: ArrayLike, fpr: float = 0.01) -> Estimate:
    """Call samples above a threshold members; at most floor(fpr n) of n non-members are.

    With fewer than 1 / fpr non-members, none may be accused. The exact interval takes the
    threshold for given.
    """
    inside, outside = finite("scores of members", members), _nonmembers(nonmembers)
    allowed = math.floor(fpr * len(outside) + 1e-9)  # 0.29 * 100 is 28.999... in floats
    threshold = np.sort(outside)[::-1][allowed]
    found = int((inside > threshold).sum())
    return Estimate(TPR_AT_1_PERCENT, found / len(inside), clopper_pearson(found, len(inside)))


def _nonmembers(scores: ArrayLike) -> Array:
    return finite("scores of non-members", scores)
