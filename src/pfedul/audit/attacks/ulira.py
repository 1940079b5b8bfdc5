"""U-LiRA: are unlearned models distinguishable from retrained ones, sample by sample?

J. Hayes, I. Shumailov, E. Triantafillou, A. Khalifa, N. Papernot, "Inexact unlearning
needs more careful evaluations", SaTML 2025 (arXiv 2403.01218): for each sample a
Gaussian of phi over unlearned models and one over retrained models; a model that
fitted neither is called by the likelier. Accuracy 0.5 is ideal. What differs:

- A few models instead of 256, so each plays the held-out one in turn: one of each
  kind is left out at a time, over all pairs. Leaving out only the model under attack
  would leave its kind with one model less, and bias the accuracy below 0.5.
- With few models one variance of each kind is shared by all samples, as Carlini et
  al. (arXiv 2112.03570) advise; theirs is the variance of all values, which counts
  the differences between samples as well, here it is that within samples.
- The interval is over models, by relabelling: which models are called unlearned is
  drawn again, and the accuracy then strays from 0.5 by chance alone. The accuracy plus
  or minus what holds 95 % of that straying contains 0.5 exactly when a permutation
  test finds nothing. (A bootstrap of models misses 0.5 in a quarter of the cases in
  which there is nothing to find: models under attack also fit each other's Gaussians.)
  Models must have been trained independently of each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pfedul.audit.attacks.arrays import Array, two_model_sets
from pfedul.audit.attacks.base import Attack, Estimate, Metric
from pfedul.audit.attacks.intervals import Interval
from pfedul.base.randomness import numpy_generator

ACCURACY = Metric("U-LiRA accuracy", best=0.5)
"""Share of held-out models, over all samples, rightly called unlearned or retrained."""
FEWEST_MODELS = 4
"""Of each kind: with 3 and 3 no relabelling is rarer than 1 in 10, so nothing could be shown."""

MODELS_FOR_OWN_VARIANCE = 64
"""From here on every sample has variances of its own, as in LiRA's experiments."""

_SMALLEST_VARIANCE = 1e-12  # models that agree to the bit would give a likelihood without bound


def ulira_attack(
    unlearned: ArrayLike, retrained: ArrayLike, seed: int = 0, draws: int = 300
) -> Estimate:
    """Accuracy of the attack on phi of unlearned [models, samples] and retrained models."""
    left, right = two_model_sets("values of phi", unlearned, retrained, FEWEST_MODELS)
    shared = min(len(left), len(right)) < MODELS_FOR_OWN_VARIANCE
    accuracy = float(pair_accuracies(left, right, shared).mean())
    strays = _strays(left, right, shared, seed, draws)
    return Estimate(ACCURACY, accuracy, _around(accuracy, strays))


def pair_accuracies(unlearned: Array, retrained: Array, shared_variance: bool = True) -> Array:
    """[unlearned, retrained]: share of samples on which that held-out pair is called rightly."""
    means_u, variances_u = (part[:, None] for part in without_each(unlearned, shared_variance))
    means_r, variances_r = (part[None] for part in without_each(retrained, shared_variance))

    def evidence(values: Array) -> Array:
        return log_likelihood_ratio(values, means_u, variances_u, means_r, variances_r)

    hits = _called(evidence(unlearned[:, None])) + 1 - _called(evidence(retrained[None]))
    rates: Array = hits.mean(axis=-1) / 2
    return rates


def log_likelihood_ratio(
    values: Array, means: Array, variances: Array, other_means: Array, other_variances: Array
) -> Array:
    """Log density under the first Gaussian minus that under the second.

    >>> one = np.ones(1)
    >>> log_likelihood_ratio(2 * one, 2 * one, one, 0 * one, one)
    array([2.])
    """
    first = np.log(variances) + (values - means) ** 2 / variances
    second = np.log(other_variances) + (values - other_means) ** 2 / other_variances
    ratio: Array = (second - first) / 2
    return ratio


def without_each(values: Array, shared_variance: bool) -> tuple[Array, Array]:
    """Mean and variance of the *other* models, for each model and sample."""
    count = len(values)
    away = values - values.mean(axis=0)
    means = values.mean(axis=0) - away / (count - 1)
    squares = (away**2).sum(axis=0) - away**2 * count / (count - 1)
    variances = squares / (count - 2)
    if shared_variance:
        variances = np.broadcast_to(variances.mean(axis=1, keepdims=True), values.shape)
    return means, np.maximum(variances, _SMALLEST_VARIANCE)


def _called(evidence: Array) -> Array:
    """1 for unlearned, 0 for retrained, a half where nothing speaks for either."""
    return (np.sign(evidence) + 1) / 2


def _strays(unlearned: Array, retrained: Array, shared: bool, seed: int, draws: int) -> Array:
    """How far from 0.5 the accuracy is under each relabelling, the true one among them."""
    every = np.concatenate([unlearned, retrained])
    labellings = _relabellings(len(unlearned), len(every), seed, draws)
    found = [pair_accuracies(every[mask], every[~mask], shared).mean() for mask in labellings]
    return np.abs(np.asarray(found) - 0.5)


def _relabellings(chosen: int, total: int, seed: int, draws: int) -> Iterator[NDArray[np.bool_]]:
    """All of them if there are at most `draws`, else the true one and random ones."""
    true = np.arange(total) < chosen
    if math.comb(total, chosen) <= draws:
        for places in combinations(range(total), chosen):
            yield np.isin(np.arange(total), places)
        return
    stream = numpy_generator(seed, "relabelling")
    yield true
    for _ in range(draws - 1):
        yield stream.permutation(true)


def _around(accuracy: float, strays: Array) -> Interval:
    """The smallest reach that at most 5 % of the relabellings go beyond."""
    ranked = np.sort(strays)
    # rounding apart, equal strays are equal: a relabelling must not beat itself by a last digit
    reach = float(ranked[math.ceil(0.95 * len(ranked) - 1e-9) - 1]) + 1e-12
    return max(0.0, accuracy - reach), min(1.0, accuracy + reach)


ULIRA = Attack(
    name="ulira",
    title="U-LiRA",
    summary="distinguishes unlearned from retrained models, sample by sample",
    explanation=(
        "For each sample the attacker learns how unlearned and how retrained models "
        "answer, and then guesses which kind another model is. At 50 % it can only guess."
    ),
    paper="Hayes et al., SaTML 2025, arXiv 2403.01218",
    # its draws are relabellings, not a bootstrap
    population=lambda unlearned, oracles, _draws: ulira_attack(unlearned, oracles),
    fewest=FEWEST_MODELS,
)
