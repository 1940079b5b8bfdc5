"""One score per sample from the two-halves regression: no bias on noise, and aligned."""

import numpy as np
import pytest

from pfedul.audit.attacks.arrays import half_places
from pfedul.audit.attacks.logistic import logistic_scores
from pfedul.audit.attacks.roc import auc


def test_noise_gives_one_half_on_average():
    members, nonmembers, found = 9, 14, []
    for seed in range(80):
        stream = np.random.default_rng(seed)
        logits = stream.normal(size=(members + nonmembers, 3))
        labels = stream.integers(3, size=members + nonmembers)
        inside = logits[:members], labels[:members]
        outside = logits[members:], labels[members:]
        found.append(auc(*logistic_scores(*inside, *outside, seed=seed)))
    assert abs(np.mean(found) - 0.5) < 3 * np.std(found) / np.sqrt(len(found))


@pytest.mark.parametrize(("members", "nonmembers"), [(20, 20), (7, 10), (8, 5), (3, 40)])
def test_what_is_separate_stays_separate_when_halves_are_put_together(members, nonmembers):
    stream = np.random.default_rng(1)
    sure = np.stack([9 + stream.random(members), np.zeros(members)], axis=1)
    unsure = np.stack([stream.random(nonmembers), np.zeros(nonmembers)], axis=1)
    labels = [0] * members, [0] * nonmembers
    assert auc(*logistic_scores(sure, labels[0], unsure, labels[1])) == 1


def test_scores_belong_to_the_samples_as_given():
    stream = np.random.default_rng(2)
    logits = stream.normal(size=(10, 2)) * 0.01
    logits[3] = [9, 0]
    nonmembers = stream.normal(size=(10, 2)) * 0.01 - [3, 0]
    inside, outside = logistic_scores(logits, [0] * 10, nonmembers, [0] * 10)
    assert inside.argmax() == 3
    assert (inside.shape, outside.shape) == ((10,), (10,))
    assert np.concatenate([inside, outside]).mean() == pytest.approx(0.5)


def test_halves_depend_on_seed_and_count_alone():
    first, again, other = (half_places(20, seed, "members")[0].tolist() for seed in (1, 1, 2))
    assert first == again != other
