"""Eq. 6 to 8 on numbers that fit on a line."""

import math

import pytest
import torch

from pfedul.split import Layer
from pfedul.unlearn.pfedul.scores import layer_scores, select, threshold

LAYERS = [Layer("one", ("w", "b"), 3), Layer("two", ("v",), 1)]


def fisher(w: list[float], b: float, v: float) -> dict[str, torch.Tensor]:
    return {"w": torch.tensor(w), "b": torch.tensor([b]), "v": torch.tensor([v])}


def test_the_tensors_of_a_layer_count_together():
    """(1 + 0 + 2) / (2 + 6 + 4) and 3 / 4: not the mean of the shares of w and b."""
    target, total = fisher([1.0, 0.0], 2.0, 3.0), fisher([2.0, 6.0], 4.0, 4.0)
    assert layer_scores(target, total, LAYERS) == [0.25, 0.75]


def test_a_layer_that_nobody_touched_scores_zero():
    target, total = fisher([0.0, 0.0], 0.0, 1.0), fisher([0.0, 0.0], 0.0, 2.0)
    assert layer_scores(target, total, LAYERS) == [0.0, 0.5]


def test_sums_are_in_double_precision():
    """2^24 + an odd number, which float32 cannot hold."""
    big = torch.ones(1002)
    big[0] = 2.0**24
    scores = layer_scores({"v": torch.ones(1)}, {"v": big}, [LAYERS[1]])
    assert scores == [1 / (2**24 + 1001)]


def test_a_sum_beyond_single_precision_is_not_infinite_but_an_infinity_is():
    huge = {"v": torch.full((4,), 3e38)}
    assert layer_scores(huge, huge, [LAYERS[1]]) == [1.0]
    endless = {"v": torch.tensor([1.0, math.inf])}
    assert math.isnan(layer_scores(endless, endless, [LAYERS[1]])[0])
    assert math.isnan(layer_scores({"v": torch.tensor([math.nan])}, huge, [LAYERS[1]])[0])


def test_the_threshold_uses_the_population_standard_deviation():
    scores = [1.0, 2.0, 6.0]  # mean 3, variance (4 + 1 + 9) / 3
    assert threshold(scores, 0.0) == 3.0
    assert threshold(scores, 0.5) == pytest.approx(3 + 0.5 * math.sqrt(14 / 3))


def test_selection_is_strict():
    assert select([0.1, 0.5, 0.6], 0.5) == [False, False, True]
    assert select([0.1, 0.5, 0.6], 0.0) == [True, True, True]
    assert select([0.0, 0.0], 0.0) == [False, False]


@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("value", [1e-9, 0.1, 1 / 3, 0.7])
@pytest.mark.parametrize("count", [1, 3, 7, 17])
def test_equal_scores_are_never_chosen_by_rounding(alpha, value, count):
    scores = [value * (1 + 1e-12 * (index % 2)) for index in range(count)]
    assert not any(select(scores, threshold(scores, alpha)))


def test_a_small_but_real_difference_is_enough():
    scores = [0.1, 0.1, 0.1001]
    assert select(scores, threshold(scores, 0.5)) == [False, False, True]
