"""Figures read off answers: MIA accuracy, and intervals that count clients and test samples."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pfedul.audit.ask.answers import Answers
from pfedul.audit.ask.samples import labels_of
from pfedul.audit.attacks.base import Labels, View
from pfedul.audit.attacks.threshold import cross_fitted_accuracy
from pfedul.compare.figures import mia_figures, preservation_intervals, preserved
from pfedul.data.samples import TensorSamples
from pfedul.tasks.classification import CLASSIFICATION

RNG = np.random.default_rng(0)


def logits(right) -> np.ndarray:
    """Answers to samples of class 0 that are right where it says so."""
    return np.where(np.asarray(right)[:, None], [[2.0, 0.0]], [[0.0, 2.0]])


# MIA accuracy


def test_separate_losses_are_told_apart_and_equal_ones_are_not():
    assert cross_fitted_accuracy(np.arange(50.0), np.arange(100.0, 200.0)) > 0.99
    same = [cross_fitted_accuracy(RNG.normal(size=200), RNG.normal(size=80)) for _ in range(30)]
    assert np.mean(same) == pytest.approx(0.5, abs=0.02)


def test_a_fit_on_the_tried_samples_would_be_above_a_half():
    """What the paper may have done: of pure noise more than a half is found."""
    inside, outside = RNG.normal(size=40), RNG.normal(size=40)
    apart = max(np.mean(inside <= t) + np.mean(outside > t) for t in inside) / 2
    assert apart > 0.52
    assert cross_fitted_accuracy(inside, outside) < apart


def test_the_accuracy_of_a_shift_is_what_theory_says():
    """Two normal losses one deviation apart: the best threshold is right in 69.1 %."""
    accuracy = cross_fitted_accuracy(RNG.normal(0, 1, 4000), RNG.normal(1, 1, 4000))
    assert accuracy == pytest.approx(0.691, abs=0.015)


def answers(**surfaces) -> Answers:
    """Surfaces with members of low loss in the share that is given."""
    labels = Labels(*(np.zeros(n, dtype=np.int64) for n in (100, 100, 5)))
    views = {}
    for name, share in surfaces.items():
        members = logits(np.arange(100) < 100 * share)
        views[name] = (View(name, members, logits(np.zeros(100)), logits(np.ones(5)), labels),)
    return Answers(views, {}, {}, {})


def surfaces(*names: str, worst: str = "") -> list:
    return [SimpleNamespace(name=name, worst=name == worst) for name in names]


def test_every_surface_and_the_one_that_papers_mean():
    seen = answers(remaining=0.2, worst=0.2, stale=0.8, probe=0.4)
    figures = mia_figures(surfaces("remaining", "worst", "stale", "probe", worst="worst"), seen)
    assert list(figures["mia"]) == ["remaining", "stale", "probe"]
    assert figures["mia_surface"] == "stale"
    assert figures["mia_accuracy"] == figures["mia"]["stale"]["accuracy"] == pytest.approx(0.9)
    assert figures["mia"]["stale"]["auc"] == pytest.approx(0.9)


def test_with_a_whole_model_per_client_it_is_the_shared_model():
    figures = mia_figures(surfaces("remaining", "shared"), answers(remaining=0.2, shared=0.6))
    assert (figures["mia_surface"], figures["mia_accuracy"]) == ("shared", pytest.approx(0.8))


# Intervals


def asked(before, after) -> tuple:
    """Samples of class 0 with the answers before and after, by client."""
    sets = {
        name: TensorSamples(torch.zeros(len(hits), 1), torch.zeros(len(hits), dtype=torch.int64))
        for name, hits in before.items()
    }
    made = [
        Answers({}, {}, {name: logits(hits) for name, hits in part.items()}, {})
        for part in (before, after)
    ]
    samples = SimpleNamespace(own_test=sets, task=CLASSIFICATION, labels_of=labels_of)
    return samples, *made


def interval(before, after) -> dict:
    kept = preserved(
        {name: np.mean(hits) for name, hits in before.items()},
        {name: np.mean(hits) for name, hits in after.items()},
    )
    return preservation_intervals(*asked(before, after), kept) | kept


def trial(samples: int, clients: int = 10, p: float = 0.9) -> dict:
    """Accuracy before 0.8; after the removal each right answer is kept with probability p."""
    before = {f"c{n}": RNG.random(samples) < 0.8 for n in range(clients)}
    after = {name: hits & (RNG.random(samples) < p) for name, hits in before.items()}
    return interval(before, after)


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    covered = [
        figures["pps_interval"][0] <= 0.9 <= figures["pps_interval"][1]
        for figures in (trial(60) for _ in range(150))
    ]
    assert 0.86 <= np.mean(covered) <= 1


def test_fewer_test_samples_make_them_wider_and_the_same_answers_none():
    def width(samples: int) -> float:
        low, high = trial(samples)["pps_interval"]
        return high - low

    assert width(20) > 2 * width(400)
    same = {f"c{n}": np.arange(40) < 30 for n in range(5)}
    figures = interval(same, same)
    assert figures["pps_interval"] == (1.0, 1.0)
    assert figures["cfi_interval"] == (1.0, 1.0)


def test_the_same_samples_are_compared_so_the_interval_is_narrow():
    """Half of all answers are right both times: drawn apart, PPS would seem to move."""
    hits = {f"c{n}": np.arange(40) < 20 for n in range(5)}
    turned = {name: ~one for name, one in hits.items()}
    low, high = interval(hits, turned)["pps_interval"]
    assert high - low > 0.2


def test_cfi_is_never_above_one_and_clients_without_a_hit_are_left_out():
    before = {"a": np.ones(30), "b": np.arange(30) < 15, "c": np.zeros(30)}
    after = {"a": np.arange(30) < 20, "b": np.arange(30) < 15, "c": np.ones(30)}
    figures = interval(before, after)
    assert figures["cfi_interval"][1] <= 1
    assert set(figures["client_ratios"]) == {"a", "b"}


def test_without_the_answers_before_there_is_none():
    kept = preserved({"a": 0.5}, {"a": 0.5})
    nothing = {"pps_interval": None, "cfi_interval": None}
    assert preservation_intervals(None, None, None, kept) == nothing


def test_ratios_are_in_order():
    before = dict.fromkeys("abcde", 1.0)
    kept = preserved(before, dict(zip("abcde", (0.5, 0.9, 0.7, 1.0, 0.8), strict=True)))
    assert [kept[name] for name in ("lowest_ratio", "lower_quartile", "median_ratio")] == [
        0.5,
        0.7,
        pytest.approx(0.8),
    ]
    assert (kept["upper_quartile"], kept["highest_ratio"]) == (0.9, 1.0)
