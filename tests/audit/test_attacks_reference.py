"""Attacks against slow loops that follow the papers word by word, and against scikit-learn."""

import math
from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

from pfedul.audit.attacks.forgetting_quality import epsilon
from pfedul.audit.attacks.klom import klom
from pfedul.audit.attacks.rmia import rmia_scores
from pfedul.audit.attacks.roc import auc, roc
from pfedul.audit.attacks.threshold import best_threshold, threshold_attack
from pfedul.audit.attacks.ulira import pair_accuracies

STREAM = np.random.default_rng(0)


@pytest.mark.parametrize("values", [4, 50, 10**6])
def test_auc_and_roc_equal_those_of_scikit_learn(values):
    stream = np.random.default_rng(values)
    members, others = stream.integers(values, size=60) + 1, stream.integers(values, size=45)
    truth, scores = np.repeat([1, 0], [60, 45]), np.concatenate([members, others])
    assert auc(members, others) == pytest.approx(roc_auc_score(truth, scores))
    fpr, tpr, _ = roc_curve(truth, scores, drop_intermediate=False)
    assert np.allclose(roc(members, others), [fpr, tpr])


def slow_ulira(unlearned, retrained, shared):
    def gaussian(values, sample):
        if not shared:
            return values[:, sample].mean(), values[:, sample].var(ddof=1)
        within = [values[:, place].var(ddof=1) for place in range(values.shape[1])]
        return values[:, sample].mean(), sum(within) / len(within)

    def density(value, mean, variance):
        return math.exp(-((value - mean) ** 2) / (2 * variance)) / math.sqrt(variance)

    found = np.zeros((len(unlearned), len(retrained)))
    for i in range(len(unlearned)):
        for j in range(len(retrained)):
            hits = 0
            for sample in range(unlearned.shape[1]):
                one = gaussian(np.delete(unlearned, i, axis=0), sample)
                other = gaussian(np.delete(retrained, j, axis=0), sample)
                x, y = unlearned[i, sample], retrained[j, sample]
                hits += density(x, *one) > density(x, *other)
                hits += density(y, *other) > density(y, *one)
            found[i, j] = hits / (2 * unlearned.shape[1])
    return found


@pytest.mark.parametrize("shared", [True, False])
def test_ulira_equals_a_slow_loop(shared):
    unlearned, retrained = STREAM.normal(0.5, 1, (5, 7)), STREAM.normal(0, 2, (6, 7))
    fast = pair_accuracies(unlearned, retrained, shared)
    assert fast == pytest.approx(slow_ulira(unlearned, retrained, shared))


def slow_klom(unlearned, oracles, bins):
    found = []
    for ours, theirs in zip(unlearned.T, oracles.T, strict=True):
        ours, theirs = np.clip(ours, -100, 100), np.clip(theirs, -100, 100)
        edges = np.linspace(min(*ours, *theirs), max(*ours, *theirs), bins + 1)
        p, q = (np.histogram(part, edges)[0] / len(part) for part in (ours, theirs))
        q = np.array([max(b, 1e-5) if a > 0 else b for a, b in zip(p, q, strict=True)])
        q = q / q.sum()
        found.append(sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0))
    return found


@pytest.mark.parametrize("bins", [2, 5, 20])
def test_klom_equals_a_slow_loop(bins):
    unlearned, oracles = STREAM.normal(1, 60, (30, 9)), STREAM.normal(0, 50, (24, 9))
    assert klom(unlearned, oracles, bins) == pytest.approx(slow_klom(unlearned, oracles, bins))


def test_klom_is_zero_for_identical_arrays_in_any_order_of_models():
    margins = STREAM.normal(size=(20, 30))
    assert klom(margins, margins).tolist() == [0] * 30
    assert klom(margins, margins[::-1]) == pytest.approx(0, abs=1e-12)
    assert klom(np.ones((3, 2)), np.ones((3, 2))).tolist() == [0, 0]


def slow_rmia(target, references, population, population_references, a, gamma):
    def ratio(confidence, others):
        return confidence / (0.5 * ((1 + a) * np.mean(others) + (1 - a)))

    found = []
    for sample in range(len(target)):
        own = ratio(target[sample], references[:, sample])
        beaten = [
            own / ratio(population[z], population_references[:, z]) >= gamma
            for z in range(len(population))
        ]
        found.append(sum(beaten) / len(beaten))
    return found


@pytest.mark.parametrize(("a", "gamma"), [(0.3, 1.0), (0.0, 1.5), (1.0, 2.0)])
def test_rmia_equals_a_slow_loop(a, gamma):
    samples = (STREAM.random(12), STREAM.random((4, 12)))
    population = (STREAM.random(25), STREAM.random((4, 25)))
    slow = slow_rmia(*samples, *population, a, gamma)
    assert rmia_scores(samples, population, a, gamma) == pytest.approx(slow)


def slow_epsilon(unlearned, retrained, step=None):
    """All cuts; with a step the challenge's grid instead, for the pairs only near the range."""
    values = sorted({*unlearned, *retrained})
    middles = [values[0] - 1, *(sum(pair) / 2 for pair in pairwise(values)), values[-1] + 1]
    right, left = unlearned, retrained
    if np.median(retrained) > np.median(unlearned):
        right, left = retrained, unlearned
    narrow, wide = retrained, unlearned
    if np.ptp(unlearned) < np.ptp(retrained):
        narrow, wide = unlearned, retrained
    singles = middles if step is None else np.arange(values[0], values[-1], step)
    pairs = [(a, b) for a in middles for b in middles if a < b]
    if step is not None:
        ends = np.arange(narrow.max() - 2, narrow.max() + 2, step)
        width = np.ptp(narrow)
        pairs = [(b - width + shift, b) for b in ends for shift in np.arange(-2, 2, step)]
    errors = [(np.mean(right < t), np.mean(left >= t)) for t in singles]
    for a, b in pairs:
        errors.append((np.mean((narrow < a) | (narrow > b)), np.mean((wide >= a) & (wide <= b))))
    return max(map(_slow_epsilon_of, errors), default=0.0)


def _slow_epsilon_of(rates):
    misses, alarms = rates
    if misses == alarms == 0:
        return 50.0
    if misses == 0 or alarms == 0:
        return 0.0
    found = [0.0]
    for one, other in ((misses, alarms), (alarms, misses)):
        if 1 - 1e-5 - other > 0:
            found.append(math.log((1 - 1e-5 - other) / one))
    return max(found)


@pytest.mark.parametrize("shift", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("rounded", [False, True])
def test_epsilon_equals_a_slow_loop_and_is_not_below_the_grid(shift, rounded):
    stream = np.random.default_rng(7)
    for _ in range(5):
        one, other = stream.normal(shift, 1, 8), stream.normal(0, 1.5, 8)
        if rounded:
            one, other = one.round(), other.round()
        assert epsilon(one, other) == pytest.approx(slow_epsilon(one, other))
        assert epsilon(one, other) >= slow_epsilon(one, other, step=0.1) - 1e-9


def test_the_threshold_is_not_fitted_on_the_samples_that_it_is_tried_on():
    stream, found, cheating = np.random.default_rng(0), [], []
    for seed in range(200):
        members, others = stream.normal(size=8), stream.normal(size=8)
        found.append(threshold_attack(members, others, seed, draws=1).value)
        threshold = best_threshold(members, others)
        cheating.append((np.mean(members <= threshold) + np.mean(others > threshold)) / 2)
    assert np.mean(found) == pytest.approx(0.5, abs=0.04)
    assert np.mean(cheating) > 0.6
