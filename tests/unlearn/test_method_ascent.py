"""GA-Naive, Fine-tune and one more round against their equations in numpy."""

import numpy as np
import pytest

from linear import (
    NAME,
    RATE,
    SIZES,
    TARGET,
    assert_close,
    cross_entropy_gradient,
    fedavg_round,
    federation,
    weight,
)
from pfedul.errors import PfedulError
from pfedul.unlearn.methods import METHODS


def remaining(*targets: str) -> list[str]:
    return [client for client in SIZES if client not in targets]


def ascent(w, rounds: int, rate: float, clip: float, targets=(TARGET,)):
    """Clipped steps up, from the mean of the targets' results each time."""
    total = sum(SIZES[target] for target in targets)
    for _ in range(rounds):
        step = np.zeros_like(w)
        for target in targets:
            g = cross_entropy_gradient(w, target)
            g = g * min(1.0, clip / (np.linalg.norm(g) + 1e-6))
            step += SIZES[target] / total * g
        w = w + rate * step
    return w


@pytest.fixture
def linear(tmp_path):
    with federation(tmp_path / "run") as made:
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


def test_fine_tune_is_ascent_and_then_rounds_of_the_others(linear):
    expected = ascent(weight(linear), 2, 0.5 * RATE, 1.0)
    for _ in range(3):
        expected = fedavg_round(expected, remaining(TARGET))
    outcome = linear.forget(TARGET, method="fine-tune:rounds=3,ascent=2,lr=0.5")
    assert_close(linear.shared[NAME], expected)
    assert outcome.rounds == 5


def test_one_more_round_is_an_ordinary_one_without_the_target(linear):
    """Two local epochs with momentum 0.5, as the federation was trained."""
    start = weight(linear)
    ends = []
    for client in remaining(TARGET):
        first = cross_entropy_gradient(start, client)
        w = start - RATE * first
        ends.append(w - RATE * (0.5 * first + cross_entropy_gradient(w, client)))
    sizes = [SIZES[client] for client in remaining(TARGET)]
    linear.forget(TARGET, method="one-more-round")
    assert_close(linear.shared[NAME], np.average(ends, axis=0, weights=sizes))


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
