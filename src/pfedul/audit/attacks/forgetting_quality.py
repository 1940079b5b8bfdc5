"""The forgetting score of the NeurIPS 2023 unlearning challenge: an empirical epsilon per sample.

E. Triantafillou et al., "Are we making progress in unlearning?" (arXiv 2406.09073).
For each sample an attacker picks the best threshold, or pair of thresholds, on phi
between unlearned and retrained models; its error rates give the epsilon of (epsilon,
delta)-unlearning. Rules of the authors' code (google-deepmind/unlearning_evaluation):

- a threshold at which exactly one error rate is 0 is dropped, for lack of models; both 0
  means epsilon without bound, capped at 50; so is a sample of which one kind of model
  has less than 1 % of the other's range;
- to the right of a single threshold is the kind with the larger median, between two
  thresholds the kind with the smaller range;
- epsilon in [0, 0.5) gives 1 point, [0.5, 1) a half, [1, 1.5) a quarter, up to
  ceil(log(models - 1)), beyond which there are none.

What differs: their thresholds are a grid of 100 per unit of phi, the pairs not far
from the narrower kind's range; here every cut that divides the values differently is
tried, so epsilon is never smaller, up to their grid. Equal constants are epsilon 0
(theirs fails), and so is a sample of which no threshold is left.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from pfedul.audit.attacks.arrays import Array, Whole, two_model_sets
from pfedul.audit.attacks.base import Attack, Estimate, Metric
from pfedul.audit.attacks.intervals import stratified_bootstrap

FORGETTING = Metric("forgetting quality", best=1.0, higher_is_better=True)
"""Mean points of the samples: 1 for an epsilon below 0.5, half with every 0.5 more."""
FEWEST_MODELS = 3
"""Of each kind; with two there is no bucket: ceil(log(1)) is 0."""

DELTA = 1e-5
LARGEST_EPSILON = 50.0
_BUCKET = 0.5
_NARROW = 0.01


def forgetting_attack(
    unlearned: ArrayLike, retrained: ArrayLike, draws: int = 2000, seed: int = 0
) -> Estimate:
    """Mean points over samples; its interval is over samples, with these very models."""
    left, right = two_model_sets("values of phi", unlearned, retrained, FEWEST_MODELS)
    points = np.sort(points_of(epsilons(left, right), min(len(left), len(right))))
    interval = stratified_bootstrap([points], np.mean, seed, draws)
    return Estimate(FORGETTING, float(points.mean()), interval)


def epsilons(unlearned: ArrayLike, retrained: ArrayLike) -> Array:
    """Epsilon of each sample from phi, [models, samples] both."""
    left, right = two_model_sets("values of phi", unlearned, retrained, FEWEST_MODELS)
    return np.array([epsilon(a, b) for a, b in zip(left.T, right.T, strict=True)])


def epsilon(unlearned: Array, retrained: Array) -> float:
    """Epsilon of one sample, from phi under each model."""
    ranges = sorted(float(np.ptp(values)) for values in (unlearned, retrained))
    if ranges[1] > 0 and ranges[0] < _NARROW * ranges[1]:
        return LARGEST_EPSILON
    rules = (single_thresholds(unlearned, retrained), double_thresholds(unlearned, retrained))
    return max(_largest_epsilon(*errors) for errors in rules)


def points_of(values: Array, models: int) -> Array:
    """Points for each epsilon, with so many models of each kind."""
    bucket = np.floor(values / _BUCKET)
    buckets = math.ceil(math.log(models - 1)) / _BUCKET
    return np.where(bucket < buckets, 0.5**bucket, 0.0)


Errors = tuple[Array, Array]
"""False negative and false positive rates of a family of rules."""


def single_thresholds(unlearned: Array, retrained: Array) -> Errors:
    """Rates for every threshold: from it on values are called by the kind of larger median.

    >>> single_thresholds(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    (array([0. , 0. , 0. , 0.5]), array([1. , 0.5, 0. , 0. ]))
    """
    above, below = unlearned, retrained
    if np.median(retrained) > np.median(unlearned):
        above, below = retrained, unlearned
    cuts = np.unique(np.concatenate([above, below]))
    return _counts_below(above, cuts) / len(above), 1 - _counts_below(below, cuts) / len(below)


def double_thresholds(unlearned: Array, retrained: Array) -> Errors:
    """Rates for every pair of thresholds: between them is the kind of smaller range."""
    narrow, wide = retrained, unlearned
    if np.ptp(unlearned) < np.ptp(retrained):
        narrow, wide = unlearned, retrained
    values = np.unique(np.concatenate([narrow, wide]))
    edges = np.append(values, np.inf)
    first, last = np.triu_indices(len(edges), k=1)

    def between(kind: Array) -> Whole:
        below = _counts_below(kind, edges)
        return below[last] - below[first]

    return 1 - between(narrow) / len(narrow), between(wide) / len(wide)


def _counts_below(values: Array, cuts: Array) -> Whole:
    return np.searchsorted(np.sort(values), cuts, side="left")


def _largest_epsilon(misses: Array, alarms: Array) -> float:
    if ((misses == 0) & (alarms == 0)).any():
        return LARGEST_EPSILON
    kept = (misses > 0) & (alarms > 0)
    misses, alarms = misses[kept], alarms[kept]
    with np.errstate(divide="ignore"):  # log(0) is -inf, which is never the largest
        one = np.log(np.maximum(1 - DELTA - alarms, 0)) - np.log(misses)
        other = np.log(np.maximum(1 - DELTA - misses, 0)) - np.log(alarms)
    largest = np.maximum(one, other).max(initial=0.0)
    return min(float(largest), LARGEST_EPSILON)


FORGETTING_QUALITY = Attack(
    name="forgetting-quality",
    title="forgetting quality",
    summary="empirical epsilon per sample between unlearned and retrained models, as points",
    explanation=(
        "For each sample the best possible attacker guesses from one answer whether a "
        "model was unlearned or retrained, and the model gets points where that fails. 1 "
        "point is full marks."
    ),
    paper="Triantafillou et al., 2024, arXiv 2406.09073",
    population=forgetting_attack,
    fewest=FEWEST_MODELS,
)
