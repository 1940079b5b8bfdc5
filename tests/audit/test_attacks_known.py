"""Attacks on numbers small enough to check by hand, and the sentences that refuse the rest."""

import math

import numpy as np
import pytest

from pfedul.audit.attacks.checks import backdoor_attack, distance_attack
from pfedul.audit.attacks.forgetting_quality import epsilon, epsilons, points_of
from pfedul.audit.attacks.intervals import (
    clopper_pearson,
    stratified_bootstrap,
    student_quantile,
)
from pfedul.audit.attacks.klom import bins_for, klom
from pfedul.audit.attacks.logistic import logistic_attack
from pfedul.audit.attacks.rmia import rmia_scores
from pfedul.audit.attacks.roc import auc, roc, tpr_at_fpr
from pfedul.audit.attacks.signals import confidence, correctness, entropy, loss, margin
from pfedul.audit.attacks.threshold import best_threshold, threshold_attack
from pfedul.audit.attacks.ulira import ulira_attack
from pfedul.errors import PfedulError


def test_signals_of_a_distribution_known_by_hand():
    logits, labels = np.log([[0.7, 0.2, 0.1], [0.7, 0.2, 0.1]]), [0, 2]
    assert confidence(logits, labels) == pytest.approx([0.7, 0.1])
    assert loss(logits, labels) == pytest.approx([-math.log(0.7), -math.log(0.1)])
    assert margin(logits, labels) == pytest.approx([math.log(0.7 / 0.3), math.log(0.1 / 0.9)])
    assert correctness(logits, labels).tolist() == [1, 0]
    by_hand = -sum(p * math.log(p) for p in (0.7, 0.2, 0.1))
    assert entropy(logits, labels) == pytest.approx([by_hand, by_hand])


def test_signals_do_not_saturate():
    logits = np.array([[800.0, 0.0], [60.0, 0.0], [-800.0, 0.0]])
    assert margin(logits, [0, 0, 0]).tolist() == [800, 60, -800]
    assert loss(logits, [0, 0, 0]).tolist() == pytest.approx([0, 0, 800])
    assert entropy(logits, [0, 0, 0]) == pytest.approx([0, 0, 0])


def test_signals_take_single_precision_and_answer_in_double():
    logits = np.array([[3.0, 1.0]], dtype=np.float32)
    assert margin(logits, np.array([0])).dtype == np.float64


def test_a_threshold_lies_between_the_groups_and_the_direction_is_given():
    assert best_threshold(np.array([1.0, 2.0]), np.array([4.0, 5.0])) == 3
    assert best_threshold(np.array([4.0, 5.0]), np.array([1.0, 2.0])) == -math.inf


def test_a_target_with_high_loss_is_found_by_the_logistic_attack_alone():
    assert threshold_attack([5, 6, 7, 8], [1, 2, 3, 4]).value == 0.5
    high = [[0.0, 9.0 + k] for k in range(8)]
    low = [[9.0 + k, 0.0] for k in range(8)]
    assert logistic_attack(high, [0] * 8, low, [0] * 8).value == 1


def test_false_alarms_are_never_above_what_was_asked():
    nonmembers = np.arange(100.0)
    assert tpr_at_fpr([98.0, 98.5, 99.5, 99.7], nonmembers).value == 0.75
    tied = tpr_at_fpr([1.0, 2.0], np.ones(50))
    assert (tied.value, tied.interval) == (0.5, clopper_pearson(1, 2))


@pytest.mark.parametrize("fpr", [0.0, 0.01, 0.07, 0.29, 0.5])
def test_the_rate_at_few_false_alarms_is_a_point_of_the_roc_curve(fpr):
    stream = np.random.default_rng(1)
    members, nonmembers = stream.integers(30, size=80) + 5, stream.integers(30, size=100)
    alarms, found = roc(members, nonmembers)
    allowed = alarms <= fpr + 1e-9
    assert tpr_at_fpr(members, nonmembers, fpr).value == pytest.approx(found[allowed].max())


def test_rmia_by_hand():
    # guesses 0.5 (1.3 * 0.5 + 0.7) = 0.675 and 0.5 (1.3 * 0.1 + 0.7) = 0.415
    scores = rmia_scores(([0.675, 0.415], [[0.4, 0.1], [0.6, 0.1]]), ([0.675], [[0.5]]))
    assert scores.tolist() == [1, 1]  # a ratio equal to gamma counts
    scores = rmia_scores(([0.675, 0.83], [[0.5, 0.1]]), ([0.675], [[0.5]]), gamma=2.0)
    assert scores.tolist() == [0, 1]


def test_rmia_takes_a_model_that_rules_a_sample_out():
    zeros = ([0.0, 0.0], [[0.0, 0.0]])
    assert rmia_scores(zeros, ([0.0, 0.5], [[0.0, 0.5]])).tolist() == [0.5, 0.5]


def test_epsilon_by_hand():
    # one in four wrong on either side
    one, other = np.array([0.0, 1.0, 2.0, 5.0]), np.array([3.0, 6.0, 7.0, 8.0])
    assert epsilon(one, other) == pytest.approx(math.log((1 - 1e-5 - 0.25) / 0.25))
    assert epsilon(other, one) == pytest.approx(epsilon(one, other))


def test_epsilon_of_constants():
    assert epsilon(np.ones(4), np.ones(4)) == 0
    assert epsilon(np.ones(4), np.zeros(4)) == 50
    assert epsilon(np.full(4, 0.5), np.array([0.0, 0.4, 0.6, 1.0])) == 50  # narrow


def test_two_thresholds_find_what_one_cannot():
    narrow, wide = np.array([0.0, 1.0, 2.0, 3.0]), np.array([-9.0, -8.0, 8.0, 9.0])
    assert epsilon(narrow, wide) == 50


def test_points_halve_and_end_with_the_number_of_models():
    assert points_of(np.array([0.49, 0.99, 1.49, 1.99, 2.0]), 8).tolist() == [
        1,
        0.5,
        0.25,
        0.125,
        0,
    ]
    assert points_of(np.array([0.4, 0.9, 1.1]), 3).tolist() == [1, 0.5, 0]
    assert np.count_nonzero(points_of(np.arange(0, 20, 0.5), 32)) == 8
    assert np.count_nonzero(points_of(np.arange(0, 20, 0.5), 512)) == 14


def test_bins_grow_with_the_root_of_the_number_of_models():
    assert [bins_for(count) for count in (1, 9, 401)] == [2, 3, 20]


def test_the_triggers_own_class_does_not_count():
    logits = np.eye(3)[[2, 2, 2, 0]]
    found = backdoor_attack(logits, [2, 2, 1, 0], trigger_class=2)
    assert (found.value, found.interval) == (0.5, clopper_pearson(1, 2))


def test_distance_grows_where_the_candidate_rules_out_what_the_oracle_holds_possible():
    oracle, candidate = [[0.0, 0.0]], [[50.0, 0.0]]
    assert distance_attack(oracle, candidate)[0].value == pytest.approx(25 - math.log(2))
    assert distance_attack(candidate, oracle)[0].value == pytest.approx(math.log(2))


def test_intervals_by_hand():
    low, high = clopper_pearson(10, 10)
    assert (round(low, 12), high) == (round(0.025 ** (1 / 10), 12), 1)
    assert clopper_pearson(5, 10) == pytest.approx((0.187086, 0.812914), abs=1e-6)
    assert stratified_bootstrap([np.ones(3)], lambda part: float(part.sum())) == (3, 3)


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [
        (0, 30, 0.0, 0.1157033082220277),
        (3, 200, 0.0031041076215535, 0.0432082819177125),
        (199, 200, 0.9724581015427945, 0.9998734189721330),
        (700, 2000, 0.3290789436179440, 0.3713617300819500),
    ],
)
def test_exact_intervals_of_shares(hits, trials, low, high):
    assert clopper_pearson(hits, trials) == pytest.approx((low, high), rel=1e-12)


@pytest.mark.parametrize(
    ("probability", "freedom", "quantile"),
    [
        (0.975, 1, 12.706204736174694),
        (0.975, 3, 3.182446305283701),
        (0.995, 7.5, 3.421422688124065),
        (0.975, math.inf, 1.959963984540054),
    ],
)
def test_quantiles_of_students_t(probability, freedom, quantile):
    assert student_quantile(probability, freedom) == pytest.approx(quantile, rel=1e-12)


NAN = math.nan
PHI = np.arange(8.0).reshape(4, 2)


@pytest.mark.parametrize(
    ("attempt", "sentence"),
    [
        (lambda: auc([], [1.0]), "too few"),
        (lambda: auc([NAN], [1.0]), "NaN"),
        (lambda: threshold_attack([1.0], [1.0, 2.0]), "two members"),
        (lambda: threshold_attack([[1.0]], [1.0, 2.0]), "shape"),
        (lambda: loss([[1.0, 2.0]], [0, 1]), "one whole-number label"),
        (lambda: loss([[1.0, 2.0]], [0.5]), "one whole-number label"),
        (lambda: loss([[1.0, 2.0]], [2]), "from 0 to 1"),
        (lambda: loss([[1.0]], [0]), "two classes"),
        (lambda: loss([[NAN, 1.0]], [0]), "NaN"),
        (lambda: rmia_scores(([0.5], [[0.5, 0.5]]), ([0.5], [[0.5]])), "same samples"),
        (lambda: rmia_scores(([1.5], [[0.5]]), ([0.5], [[0.5]])), "probabilities"),
        (lambda: rmia_scores(([0.5], [[0.5]]), ([0.5], [[0.5]]), a=2), "a from 0 to 1"),
        (lambda: rmia_scores(([0.5], [[0.0]]), ([0.5], [[0.5]]), a=1), "above 0"),
        (lambda: ulira_attack(PHI[:3], PHI), "too few"),
        (lambda: ulira_attack(PHI, PHI[:, :1]), "same samples"),
        (lambda: klom(PHI, PHI, bins=1), "two bins"),
        (lambda: klom(PHI * NAN, PHI), "NaN"),
        (lambda: epsilons(PHI[:2], PHI), "too few"),
        (lambda: backdoor_attack([[1.0, 0.0]], [1], 1), "other classes"),
        (lambda: backdoor_attack([[1.0, 0.0]], [1], 7), "other classes"),
        (lambda: distance_attack([[1.0, 0.0]], [[1.0]]), "same samples"),
        (lambda: clopper_pearson(2, 1), "0 to n hits"),
        (lambda: stratified_bootstrap([np.ones(0)], np.mean), "bootstrap"),
    ],
)
def test_mistakes_are_one_sentence(attempt, sentence):
    with pytest.raises(PfedulError, match=sentence) as caught:
        attempt()
    assert str(caught.value).endswith(".")
