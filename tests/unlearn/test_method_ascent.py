"""GA-Naive, Fine-tune and one more round against their equations in numpy."""

import numpy as np
import pytest

from helpers.linear import (
    EPOCHS,
    MEAN,
    NAME,
    NORMED_NAME,
    RATE,
    SIZES,
    TARGET,
    VARIANCE,
    assert_close,
    cross_entropy_gradient,
    fedavg_round,
    federation,
    moved_statistics,
    moving,
    normed,
    standing,
    weight,
)
from pfedul.errors import PfedulError
from pfedul.unlearn.methods import METHODS


def remaining(*targets: str) -> list[str]:
    return [client for client in SIZES if client not in targets]


def ascent(w, rounds: int, rate: float, clip: float, targets=(TARGET,), data=None):
    """Clipped steps up, from the mean of the targets' results each time."""
    total = sum(SIZES[target] for target in targets)
    for _ in range(rounds):
        step = np.zeros_like(w)
        for target in targets:
            g = cross_entropy_gradient(w, target, data)
            g = g * min(1.0, clip / (np.linalg.norm(g) + 1e-6))
            step += SIZES[target] / total * g
        w = w + rate * step
    return w


@pytest.fixture
def linear(tmp_path):
    with federation(tmp_path / "run") as made:
        made.train()
        yield made


@pytest.fixture
def with_norm(tmp_path):
    """As `linear`, with BatchNorm before the matrix, whose statistics are shared."""
    with federation(tmp_path / "normed", model=normed) as made:
        made.train()
        yield made


@pytest.mark.parametrize("clip", [0.05, 10.0])
def test_ga_naive_is_clipped_ascent(linear, clip):
    expected = ascent(weight(linear), 3, 0.5 * RATE, clip)
    outcome = linear.forget(TARGET, method=f"ga-naive:rounds=3,lr=0.5,clip={clip}")
    assert_close(linear.shared[NAME], expected)
    assert outcome.rounds == 3


def test_several_targets_ascend_together(linear):
    expected = ascent(weight(linear), 2, 0.5 * RATE, 1.0, ("c0", TARGET))
    outcome = linear.forget("c0", TARGET, method="ga-naive:rounds=2,lr=0.5")
    assert_close(linear.shared[NAME], expected)
    assert outcome.rounds == 2


def test_statistics_stand_still_in_ascent_and_count_as_they_are(with_norm):
    before = {name: with_norm.shared[name].clone() for name in (MEAN, VARIANCE)}
    start = weight(with_norm, NORMED_NAME)
    expected = ascent(start, 3, 0.5 * RATE, 1.0, ("c0", TARGET), standing(before))
    with_norm.forget("c0", TARGET, method="ga-naive:rounds=3,lr=0.5")
    assert_close(with_norm.shared[NORMED_NAME], expected)
    for name, tensor in before.items():
        assert_close(with_norm.shared[name], tensor.numpy())


@pytest.mark.parametrize("epochs", [None, 1, 3])
def test_fine_tune_is_ascent_and_then_rounds_of_the_others(linear, epochs):
    """With the local epochs of training, which are two, unless others are asked for."""
    expected = ascent(weight(linear), 2, 0.5 * RATE, 1.0)
    for _ in range(3):
        expected = fedavg_round(expected, remaining(TARGET), epochs or EPOCHS)
    asked = "" if epochs is None else f",epochs={epochs}"
    outcome = linear.forget(TARGET, method=f"fine-tune:rounds=3,ascent=2,lr=0.5{asked}")
    assert_close(linear.shared[NAME], expected)
    assert outcome.rounds == 5


@pytest.mark.parametrize("rounds", [1, 2])
def test_one_more_round_is_an_ordinary_one_without_the_target(linear, rounds):
    """Two local epochs with momentum 0.5, as the federation was trained."""
    expected = weight(linear)
    for _ in range(rounds):
        expected = fedavg_round(expected, remaining(TARGET), EPOCHS)
    linear.forget(TARGET, method=f"one-more-round:rounds={rounds}")
    assert_close(linear.shared[NAME], expected)


def test_statistics_move_in_rounds_of_the_others_as_in_training(with_norm):
    expected = weight(with_norm, NORMED_NAME)
    statistics = moved_statistics(with_norm.shared, remaining(TARGET), rounds=2)
    for _ in range(2):
        expected = fedavg_round(expected, remaining(TARGET), EPOCHS, moving())
    with_norm.forget(TARGET, method="one-more-round:rounds=2")
    assert_close(with_norm.shared[NORMED_NAME], expected)
    for name, values in zip((MEAN, VARIANCE), statistics, strict=True):
        assert_close(with_norm.shared[name], values)


@pytest.mark.parametrize(
    "spec",
    [
        *("ga-naive:rounds=0", "ga-naive:lr=0", "ga-naive:clip=0", "one-more-round:rounds=0"),
        *("fine-tune:rounds=0", "fine-tune:ascent=0", "fine-tune:lr=-1", "fine-tune:epochs=0"),
    ],
)
def test_options_without_sense_are_refused(spec):
    with pytest.raises(PfedulError, match="refused"):
        METHODS.parse(spec)
