"""Logistic attack: a regression on loss, entropy, margin and correctness calls the members.

The population attack of the unlearning literature, for example A. Golatkar, A. Achille,
S. Soatto, ECCV 2020 (arXiv 2003.02960), on entropies, and M. Kurmanji et al., NeurIPS
2023 (arXiv 2302.09880), who cross-validate a regression on the loss alone. Here: four
signals, standardised with the fitting half's statistics, two halves that score each
other. Scores of two fits are not comparable, so each half is judged by itself and the
two accuracies are averaged. Each half fits the rule for the other, which makes their errors
agree. The ends of the two intervals are therefore averaged as well, which is rather too wide
than too narrow. The direction is fitted: a target that stands out by a *high* loss is found
as well.

Where every sample needs a score of its own (`logistic_scores`), to compare models sample
by sample, scores become percentiles within their half: two halves of percentiles are
comparable, and noise gives 0.5 on average.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from pfedul.audit.attacks.arrays import Array, Whole, half_places, halves
from pfedul.audit.attacks.base import Attack, Estimate, Pair, View, averaged
from pfedul.audit.attacks.roc import share_below
from pfedul.audit.attacks.signals import correctness, entropy, loss, margin
from pfedul.audit.attacks.threshold import accuracy_estimate


def logistic_attack(
    member_logits: ArrayLike,
    member_labels: ArrayLike,
    nonmember_logits: ArrayLike,
    nonmember_labels: ArrayLike,
    seed: int = 0,
    draws: int = 2000,
) -> Estimate:
    """Balanced accuracy, every sample scored by a regression that never saw it."""
    inside = halves(features(member_logits, member_labels), seed, "members")
    outside = halves(features(nonmember_logits, nonmember_labels), seed, "non-members")
    first, second = zip(inside, outside, strict=True)
    return averaged([_judge(first, second, seed, draws), _judge(second, first, seed, draws)])


def logistic_scores(
    member_logits: ArrayLike,
    member_labels: ArrayLike,
    nonmember_logits: ArrayLike,
    nonmember_labels: ArrayLike,
    seed: int = 0,
) -> Pair:
    """For each member and non-member, as given, its percentile among the scores of its half.

    Halves depend on seed and counts alone: models that answer the same samples in the
    same order are compared on the same halves. In another order the halves are others.
    """
    groups = features(member_logits, member_labels), features(nonmember_logits, nonmember_labels)
    inside_halves = half_places(len(groups[0]), seed, "members")
    outside_halves = half_places(len(groups[1]), seed, "non-members")
    folds = list(zip(inside_halves, outside_halves, strict=True))
    scores = np.empty(len(groups[0])), np.empty(len(groups[1]))
    for fit, tried in ((folds[0], folds[1]), folds[::-1]):
        inside, outside = (group[places] for group, places in zip(groups, tried, strict=True))
        score = _fitted((groups[0][fit[0]], groups[1][fit[1]]))
        values = score(np.concatenate([inside, outside]))
        ranks = share_below(values, values)
        scores[0][tried[0]], scores[1][tried[1]] = ranks[: len(inside)], ranks[len(inside) :]
    return scores


def features(logits: ArrayLike, labels: ArrayLike) -> Array:
    """Loss, entropy, margin and correctness as columns."""
    signals = (loss, entropy, margin, correctness)
    return np.stack([signal(logits, labels) for signal in signals], axis=1)


def _judge(fit: Pair, tried: Pair, seed: int, draws: int) -> Estimate:
    score = _fitted(fit)
    return accuracy_estimate(score(tried[0]) > 0, score(tried[1]) <= 0, seed, draws)


def _fitted(group: Pair) -> Callable[[Array], Array]:
    """From features of members and of non-members a function to scores; above 0 means member."""
    from sklearn.linear_model import LogisticRegression  # takes a second: only where it is used

    both = np.concatenate(group)
    centre, spread = both.mean(axis=0), both.std(axis=0)
    spread[spread == 0] = 1  # a signal that never varies stays 0 instead of NaN
    is_member = np.repeat([1, 0], [len(part) for part in group])
    # balanced: else a smaller group of members would hardly ever be called
    model = LogisticRegression(class_weight="balanced", max_iter=1000)
    model.fit((both - centre) / spread, is_member)
    return lambda rows: model.decision_function((rows - centre) / spread)


def _answers(view: View) -> tuple[Array, Whole, Array, Whole]:
    return view.members, view.labels.members, view.nonmembers, view.labels.nonmembers


LOGISTIC = Attack(
    name="logistic",
    title="logistic attack",
    summary="regression on loss, entropy, margin and correctness; weak, a sanity check",
    explanation=(
        "The attacker learns from some known samples how the answers to trained and to "
        "unseen samples differ (loss, spread, margin, right or wrong), and applies that "
        "rule to the others. It also notices samples that stand out because the model "
        "knows them too little."
    ),
    paper="Golatkar et al., ECCV 2020, arXiv 2003.02960; Kurmanji et al., NeurIPS 2023, "
    "arXiv 2302.09880",
    score=lambda view, _references: logistic_scores(*_answers(view)),
    two_sided=True,
    roc=False,
    figure=lambda view, draws: logistic_attack(*_answers(view), draws=draws),
)
