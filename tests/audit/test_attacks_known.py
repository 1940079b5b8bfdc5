"""Attacks on numbers small enough to check by hand, and the sentences that refuse the rest."""

import math

import numpy as np
import pytest

from pfedul.audit.attacks import (
    auc,
    backdoor_attack,
    bins_for,
    distance_attack,
    final_score,
    klom,
    logistic_attack,
    relearn,
    rmia_attack,
    rmia_scores,
    roc,
    threshold_attack,
    tpr_at_fpr,
    ulira_attack,
)
from pfedul.audit.attacks.forgetting_quality import epsilon, epsilons, points_of
from pfedul.audit.attacks.intervals import (
    clopper_pearson,
    smallest_visible_auc,
    stratified_bootstrap,
)
from pfedul.audit.attacks.relearn import epochs_to_return
from pfedul.audit.attacks.signals import (
    confidence,
    correctness,
    entropy,
    logit_scaled_confidence,
    loss,
    margin,
)
from pfedul.audit.attacks.threshold import best_threshold
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
    assert logit_scaled_confidence(logits, [0, 0, 0]).tolist() == [800, 60, -800]
    assert loss(logits, [0, 0, 0]).tolist() == pytest.approx([0, 0, 800])
    assert entropy(logits, [0, 0, 0]) == pytest.approx([0, 0, 0])


def test_signals_take_single_precision_and_answer_in_double():
    logits = np.array([[3.0, 1.0]], dtype=np.float32)
    assert margin(logits, np.array([0])).dtype == np.float64


def test_a_threshold_lies_between_the_groups_and_the_direction_is_given():
    assert best_threshold(np.array([1.0, 2.0]), np.array([4.0, 5.0])) == 3
    assert best_threshold(np.array([4.0, 5.0]), np.array([1.0, 2.0])) == -math.inf


def test_a_target_with_high_loss_shows_in_the_auc():
    found = threshold_attack([5, 6, 7, 8], [1, 2, 3, 4])
    assert found["AUC"].value == 0
    assert found["balanced accuracy"].value == 0.5
    high = [[0.0, 9.0 + k] for k in range(8)]
    low = [[9.0 + k, 0.0] for k in range(8)]
    assert logistic_attack(high, [0] * 8, low, [0] * 8)["AUC"].value == 1


def test_false_alarms_are_never_above_what_was_asked():
    nonmembers = np.arange(100.0)
    found = tpr_at_fpr([98.0, 98.5, 99.5, 99.7], nonmembers)
    assert (found.threshold, found.tpr, found.fpr) == (98.0, 0.75, 0.01)
    tied = tpr_at_fpr([1.0, 2.0], np.ones(50))
    assert (tied.tpr, tied.fpr) == (0.5, 0.0)
    assert tied.fpr_interval == clopper_pearson(0, 50)


@pytest.mark.parametrize("fpr", [0.0, 0.01, 0.07, 0.29, 0.5])
def test_the_rate_at_few_false_alarms_is_a_point_of_the_roc_curve(fpr):
    stream = np.random.default_rng(1)
    members, nonmembers = stream.integers(30, size=80) + 5, stream.integers(30, size=100)
    alarms, found = roc(members, nonmembers)
    allowed = alarms <= fpr + 1e-9
    assert tpr_at_fpr(members, nonmembers, fpr).tpr == pytest.approx(found[allowed].max())


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


def test_bins_and_anchors_and_score():
    assert [bins_for(count) for count in (1, 9, 401)] == [2, 3, 20]
    assert final_score(0.5, 0.8, 0.8, 0.6, 0.6) == 0.5
    assert epochs_to_return([0.7, 0.78], 0.8, tolerance=0.02) == 1
    never = relearn(0.9, [0.1, 0.9], [0.9], [0.1, 0.2], [0.1, 0.2])
    assert (never.candidate, never.oracle, never.saved) == (1, None, None)


def test_the_triggers_own_class_does_not_count():
    logits = np.eye(3)[[2, 2, 2, 0]]
    found = backdoor_attack(logits, [2, 2, 1, 0], trigger_class=2)["trigger success"]
    assert (found.value, found.interval) == (0.5, clopper_pearson(1, 2))


def test_distance_grows_where_the_candidate_rules_out_what_the_oracle_holds_possible():
    oracle, candidate = [[0.0, 0.0]], [[50.0, 0.0]]
    found = distance_attack(oracle, candidate)
    assert found["KL from oracle"].value == pytest.approx(25 - math.log(2))
    assert distance_attack(candidate, oracle)["KL from oracle"].value == pytest.approx(math.log(2))


def test_intervals_by_hand():
    low, high = clopper_pearson(10, 10, 0.9)
    assert (round(low, 12), high) == (round(0.05 ** (1 / 10), 12), 1)
    assert clopper_pearson(5, 10) == pytest.approx((0.187086, 0.812914), abs=1e-6)
    assert stratified_bootstrap([np.ones(3)], lambda part: float(part.sum())) == (3, 3)


def test_more_samples_see_smaller_effects():
    seen = [smallest_visible_auc(count, count) for count in (20, 50, 200, 2000)]
    assert seen == sorted(seen, reverse=True)
    assert 0.5 < seen[-1] < 0.53 < seen[0] < 0.8
    # an effect of that size is found about as often as promised
    stream, found, size = np.random.default_rng(0), 0, 100
    shift = 2**0.5 * 0.2893  # normal scores of that shift have AUC 0.6137
    assert smallest_visible_auc(size, size) == pytest.approx(0.6137, abs=2e-3)
    for _ in range(400):
        area = auc(stream.normal(size=size) + shift, stream.normal(size=size))
        found += abs(area - 0.5) > 1.96 * math.sqrt((2 * size + 1) / (12 * size**2))
    assert 0.72 <= found / 400 <= 0.88


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
        (lambda: rmia_attack(([], [[]]), ([], [[]]), ([], [[]])), "too few"),
        (lambda: ulira_attack(PHI[:3], PHI), "too few"),
        (lambda: ulira_attack(PHI, PHI[:, :1]), "same samples"),
        (lambda: klom(PHI, PHI, bins=1), "two bins"),
        (lambda: klom(PHI * NAN, PHI), "NaN"),
        (lambda: epsilons(PHI[:2], PHI), "too few"),
        (lambda: final_score(1, 1, 0, 1, 1), "above 0"),
        (lambda: epochs_to_return([], 0.5), "too few"),
        (lambda: epochs_to_return([0.5], NAN), "old accuracy"),
        (lambda: backdoor_attack([[1.0, 0.0]], [1], 1), "other classes"),
        (lambda: backdoor_attack([[1.0, 0.0]], [1], 7), "other classes"),
        (lambda: distance_attack([[1.0, 0.0]], [[1.0]]), "same samples"),
        (lambda: tpr_at_fpr([1.0], [1.0], 1.0), "false positive rate"),
        (lambda: clopper_pearson(2, 1), "0 to n hits"),
        (lambda: stratified_bootstrap([np.ones(0)], np.mean), "bootstrap"),
        (lambda: smallest_visible_auc(0, 5), "at least one member"),
    ],
)
def test_mistakes_are_one_sentence(attempt, sentence):
    with pytest.raises(PfedulError, match=sentence) as caught:
        attempt()
    assert str(caught.value).endswith(".")
