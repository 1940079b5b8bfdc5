"""PPS and CFI on numbers that fit on a line, and intervals over clients."""

import math

import numpy as np
import pytest

from pfedul.errors import PfedulError
from pfedul.evaluation import (
    bootstrap_interval,
    cfi,
    cfi_of_ratios,
    pps,
    pps_of_ratios,
    preservation,
)

BEFORE = {"a": 0.8, "b": 0.5, "c": 0.4}
AFTER = {"a": 0.4, "b": 0.5, "c": 0.6}  # ratios 0.5, 1, 1.5


def test_three_clients_by_hand():
    assert pps(BEFORE, AFTER) == pytest.approx(1.0)
    assert cfi(BEFORE, AFTER) == pytest.approx(1 - math.sqrt(0.5 / 3))
    found = preservation(BEFORE, AFTER)
    assert dict(found.ratios) == pytest.approx({"a": 0.5, "b": 1.0, "c": 1.5})
    assert found.undefined == ()


def test_nothing_changed_is_a_perfect_score_and_gains_go_above_one():
    assert (pps(BEFORE, BEFORE), cfi(BEFORE, BEFORE)) == (1.0, 1.0)
    assert pps(BEFORE, {client: 2 * value for client, value in BEFORE.items()}) == 2.0


def test_a_client_without_accuracy_before_is_reported_apart():
    found = preservation({**BEFORE, "z": 0.0}, {**AFTER, "z": 0.3})
    assert found.undefined == ("z",)
    assert "z" not in found.ratios
    assert found.pps == pps(BEFORE, AFTER)
    assert found.cfi == cfi(BEFORE, AFTER)


def test_without_any_ratio_the_figures_are_nan():
    found = preservation({"z": 0.0}, {"z": 0.3})
    assert math.isnan(found.pps)
    assert math.isnan(found.cfi)


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (BEFORE, {"a": 0.1}, "'b' is in only one of them"),
        ({"a": 0.1}, BEFORE, "'b' is in only one of them"),
        ({}, {}, "there are none"),
        ({"a": math.nan}, {"a": 0.5}, "client 'a'"),
        ({"a": 0.5}, {"a": -0.1}, "client 'a'"),
    ],
)
def test_mistakes_are_one_sentence(before, after, sentence):
    with pytest.raises(PfedulError, match=sentence):
        preservation(before, after)


def test_an_interval_covers_the_mean_about_as_often_as_it_says():
    draws = np.random.default_rng(0)
    inside = 0
    for seed in range(200):
        sample = draws.normal(1.0, 0.1, size=40).tolist()
        low, high = bootstrap_interval(sample, pps_of_ratios, seed=seed, draws=300, level=0.9)
        inside += low <= 1.0 <= high
    assert 165 <= inside <= 195


def test_an_interval_is_reproducible_and_widens_with_its_level():
    ratios = [0.7, 0.9, 1.0, 1.2]
    narrow, wide = (bootstrap_interval(ratios, cfi_of_ratios, level=x) for x in (0.5, 0.95))
    assert bootstrap_interval(ratios, cfi_of_ratios, level=0.5) == narrow
    assert wide[0] <= narrow[0] < narrow[1] <= wide[1]
    assert bootstrap_interval(ratios, pps_of_ratios, seed=1, level=0.5, draws=20) != (
        bootstrap_interval(ratios, pps_of_ratios, seed=2, level=0.5, draws=20)
    )
    assert bootstrap_interval([0.3], pps_of_ratios) == (0.3, 0.3)


@pytest.mark.parametrize("bad", [{"values": []}, {"draws": 0}, {"level": 1.0}])
def test_an_impossible_interval_is_refused(bad):
    with pytest.raises(PfedulError, match="bootstrap"):
        bootstrap_interval(**{"values": [1.0], "statistic": pps_of_ratios, **bad})
