"""Loss threshold: samples with a low loss are called members. The weakest attack: a sanity check.

S. Yeom, I. Giacomelli, M. Fredrikson, S. Jha, "Privacy risk in machine learning",
IEEE CSF 2018 (arXiv 1709.01604). They use the mean training loss as the threshold,
which an attacker would have to know. Here it is fitted on one half of members and
non-members, for balanced accuracy, and tried on the other; fitted and tried on the
same samples it would be right more than half of the time on pure noise. That a
member has the *lower* loss is given, not fitted: a target that stands out by a high
loss shows in an AUC of its scores below 0.5.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from pfedul.audit.attacks.arrays import Array, finite, halves
from pfedul.audit.attacks.base import Attack, Estimate, Pair, View
from pfedul.audit.attacks.intervals import stratified_bootstrap
from pfedul.audit.attacks.roc import BALANCED_ACCURACY
from pfedul.audit.attacks.signals import loss


def threshold_attack(
    member_losses: ArrayLike, nonmember_losses: ArrayLike, seed: int = 0, draws: int = 2000
) -> Estimate:
    """Balanced accuracy of a fitted threshold on samples that it was not fitted on."""
    inside = finite("losses of members", member_losses)
    outside = finite("losses of non-members", nonmember_losses)
    fit_inside, try_inside = halves(inside[:, None], seed, "members")
    fit_outside, try_outside = halves(outside[:, None], seed, "non-members")
    threshold = best_threshold(fit_inside[:, 0], fit_outside[:, 0])
    return accuracy_estimate(
        try_inside[:, 0] <= threshold, try_outside[:, 0] > threshold, seed, draws
    )


def cross_fitted_accuracy(
    member_losses: ArrayLike, nonmember_losses: ArrayLike, splits: int = 20
) -> float:
    """Balanced accuracy without the luck of one split: the mean over several, each both ways."""
    inside = finite("losses of members", member_losses)
    outside = finite("losses of non-members", nonmember_losses)
    found = []
    for split in range(splits):
        parts = [
            halves(losses[:, None], split, whose)
            for losses, whose in ((inside, "members"), (outside, "non-members"))
        ]
        for fit, test in ((0, 1), (1, 0)):
            threshold = best_threshold(*(part[fit][:, 0] for part in parts))
            tried = [part[test][:, 0] for part in parts]
            hits = (tried[0] <= threshold, tried[1] > threshold)
            found.append(balanced_accuracy(*(right.astype(np.float64) for right in hits)))
    return float(np.mean(found))


def best_threshold(member_losses: Array, nonmember_losses: Array) -> float:
    """The loss up to which to call a sample a member, for the best balanced accuracy.

    Half-way between neighbouring losses; of several as good the lowest.
    """
    values = np.unique(np.concatenate([member_losses, nonmember_losses]))
    candidates = np.concatenate([[-np.inf], (values[:-1] + values[1:]) / 2, [np.inf]])
    called = [
        np.searchsorted(np.sort(losses), candidates, side="right") / len(losses)
        for losses in (member_losses, nonmember_losses)
    ]
    return float(candidates[np.argmax(called[0] - called[1])])


def balanced_accuracy(member_hits: Array, nonmember_hits: Array) -> float:
    """Mean of the two shares of hits."""
    return float((np.mean(member_hits) + np.mean(nonmember_hits)) / 2)


def accuracy_estimate(
    member_hits: ArrayLike, nonmember_hits: ArrayLike, seed: int, draws: int
) -> Estimate:
    """Balanced accuracy with its bootstrap interval; the fitted rule is taken for given."""
    strata = [np.sort(finite("hits", hits)) for hits in (member_hits, nonmember_hits)]
    interval = stratified_bootstrap(strata, balanced_accuracy, seed, draws)
    return Estimate(BALANCED_ACCURACY, balanced_accuracy(*strata), interval)


def _score(view: View, _references: Sequence[View]) -> Pair:
    inside, outside = losses(view)
    return -inside, -outside


def losses(view: View) -> Pair:
    """Of members and of non-members."""
    return loss(view.members, view.labels.members), loss(view.nonmembers, view.labels.nonmembers)


THRESHOLD = Attack(
    name="threshold",
    title="loss threshold",
    summary="one loss threshold for all samples; weak, a sanity check",
    explanation=(
        "The attacker measures how wrong the model is on a sample (its loss) and takes "
        "every sample below one limit for one that was trained on, since models are surer "
        "of those. It is the simplest attack and a weak one."
    ),
    paper="Yeom et al., CSF 2018, arXiv 1709.01604",
    score=_score,
    figure=lambda view, draws: threshold_attack(*losses(view), draws=draws),
    roc=False,
)
