"""A candidate beside oracles and the untouched model: by hand, by simulation, and in any order."""

import math

import numpy as np
import pytest

from pfedul.audit.attacks.intervals import freedom_of_sum, student_quantile
from pfedul.audit.attacks.roc import auc
from pfedul.audit.judge.paired_test import overall_removed, paired_test
from pfedul.audit.judge.placements import Scores
from pfedul.audit.judge.references import GUESSED_BETWEEN, WEIGHT_OF_GUESS
from pfedul.errors import PfedulError

SIZE = 60


def scores(members, nonmembers):
    """One fold, one view."""
    return Scores(np.array([[members]], dtype=float), np.array([[nonmembers]], dtype=float))


def models(seed, *memories, size=SIZE, between=0.0):
    """One model for each memory; samples and their difficulty are common to all."""
    stream = np.random.default_rng(seed)
    difficulty = stream.normal(size=(2, size))

    def model(memory):
        inside, outside = difficulty + stream.normal(0, 0.7, size=(2, size))
        return scores(inside + memory + stream.normal(0, between), outside)

    return [model(memory) for memory in memories]


def width(figure):
    return figure.interval[1] - figure.interval[0]


def test_auc_and_its_error_by_hand():
    # placements: members beat 1/2 and 2/2, non-members lose to 2/2 and 1/2
    one = scores([1, 3], [0, 2])
    found = paired_test(one, [one])
    assert found.candidate.value == 0.75
    error = math.sqrt(0.125 / 2 + 0.125 / 2)
    assert found.candidate.interval == pytest.approx((0.75 - 1.959964 * error, 1.0))


def test_the_difference_of_equals_has_only_the_guessed_error():
    one = scores([1, 3], [0, 2])
    found = paired_test(one, [one, one])
    variance = (1 + 1 / 2) * WEIGHT_OF_GUESS * GUESSED_BETWEEN**2 / (WEIGHT_OF_GUESS + 1)
    reach = student_quantile(0.975, WEIGHT_OF_GUESS + 1) * math.sqrt(variance)
    assert (found.difference.value, found.spread) == (0, 0)
    assert found.difference.interval == pytest.approx((-reach, reach))


def test_the_spread_is_the_furthest_oracle_from_the_mean_of_the_others():
    ranked = [scores([0, 3], [1, 2]), scores([1.5, 3], [1, 2]), scores([4, 3], [1, 2])]
    assert [auc(one.members[0, 0], one.nonmembers[0, 0]) for one in ranked] == [0.5, 0.75, 1]
    assert paired_test(ranked[0], ranked).spread == pytest.approx(0.375)
    assert paired_test(ranked[0], ranked[:1]).spread == 0


def test_differences_are_paired():
    candidate, oracle = models(1, 0.0, 0.0, size=200)
    found = paired_test(candidate, [oracle])
    fallen = paired_test(candidate, [oracle], oracle).reduction
    assert width(fallen) < 0.9 * width(found.candidate)


def test_the_sampling_error_is_that_of_a_bootstrap_of_samples():
    candidate, untouched = models(2, 0.3, 1.0, size=80)
    stream = np.random.default_rng(0)
    wins = [
        np.sign(one.members[0, 0][:, None] - one.nonmembers[0, 0]) / 2 + 0.5
        for one in (untouched, candidate)
    ]
    draws = [
        (wins[0] - wins[1])[np.ix_(*stream.integers(80, size=(2, 80)))].mean() for _ in range(2000)
    ]
    found = paired_test(candidate, [candidate], untouched).reduction
    assert found.value == pytest.approx((wins[0] - wins[1]).mean())
    assert width(found) == pytest.approx(2 * 1.96 * np.std(draws), rel=0.06)


def test_folds_are_averaged_and_views_averaged_or_the_worst_taken():
    low, high = scores([0, 1], [2, 3]), scores([4, 5], [2, 3])
    views = Scores(
        np.concatenate([low.members, high.members], axis=1),
        np.concatenate([low.nonmembers, high.nonmembers], axis=1),
    )
    folds = Scores(views.members.swapaxes(0, 1), views.nonmembers.swapaxes(0, 1))
    assert paired_test(views, [views]).candidate.value == 0.5
    assert paired_test(views, [views], worst=True).candidate.value == 1
    assert paired_test(folds, [low], worst=True).candidate.value == 0.5


@pytest.mark.parametrize("seed", range(20))
def test_the_double_of_an_oracle_is_never_accused(seed):
    untouched, *oracles = models(seed, 1.5, *[0.0] * 4, between=0.3)
    for oracle in oracles:
        assert paired_test(oracle, oracles, untouched).finding not in (
            "leak",
            "reduced leak",
            "below",
        )


@pytest.mark.parametrize("seed", range(5))
def test_the_untouched_model_itself_leaks_and_nothing_is_reduced(seed):
    untouched, *oracles = models(seed, 2.0, *[0.0] * 4)
    found = paired_test(untouched, oracles, untouched, tests=9)
    assert found.finding == "leak"
    assert (found.reduction.value, found.reduction.interval) == (0, (0, 0))


@pytest.mark.parametrize(
    ("candidate", "untouched", "finding"),
    [
        (3.0, 3.0, "leak"),
        (1.2, 4.0, "reduced leak"),
        (0.0, 3.0, "within"),
        (-3.0, 3.0, "below"),
        (0.0, 0.0, "nothing to see"),
        (3.0, None, "leak"),
        (0.0, None, "within"),
        (-3.0, None, "below"),
    ],
)
def test_findings(candidate, untouched, finding):
    ours, before, *oracles = models(3, candidate, untouched or 0.0, *[0.0] * 4, size=150)
    found = paired_test(ours, oracles, None if untouched is None else before, tests=9)
    assert found.finding == finding
    assert (found.reduction is None) == (untouched is None)


def test_to_leak_less_than_leaky_references_is_no_fault_while_nothing_stands_out():
    ours, before, *oracles = models(3, 0.2, 4.0, *[2.0] * 4, size=150)
    found = paired_test(ours, oracles, before, tests=9)
    assert found.difference.interval[1] < -found.spread
    assert found.candidate.interval[1] > 0.5
    assert found.finding == "within"


def test_what_kept_half_of_a_leak_does_not_pass_for_want_of_power():
    found = []
    for seed in range(40):
        untouched, *oracles = models(seed, 1.0, *[0.0] * 4, size=40, between=0.1)
        half = Scores(untouched.members - 0.5, untouched.nonmembers)
        found.append(paired_test(half, oracles, untouched, tests=9))
    misses = [one for one in found if one.finding == "unclear"]
    assert len(misses) > 10  # it did fall, and with so few samples no leak is shown
    assert all(one.difference.interval[0] < 0 < one.reduction.interval[0] for one in misses)
    assert sum(one.finding == "within" for one in found) <= 2


def test_a_trifle_is_no_reduction():
    untouched, *oracles = models(4, 2.0, *[0.0] * 4, size=400)
    slightly = Scores(untouched.members - 0.05, untouched.nonmembers)
    found = paired_test(slightly, oracles, untouched)
    assert found.reduction.interval[0] > 0
    assert found.finding == "leak"


def test_the_order_of_samples_and_of_oracles_does_not_matter():
    candidate, untouched, *oracles = models(5, 0.4, 1.0, 0, 0, 0)
    stream = np.random.default_rng(0)
    order = stream.permutation(SIZE), stream.permutation(SIZE)

    def moved(one):
        return Scores(one.members[..., order[0]], one.nonmembers[..., order[1]])

    left = paired_test(candidate, oracles, untouched)
    right = paired_test(moved(candidate), [*map(moved, oracles)][::-1], moved(untouched))
    assert left.difference.interval == pytest.approx(right.difference.interval)
    assert (left.spread, left.finding) == (pytest.approx(right.spread), right.finding)
    assert left == paired_test(candidate, oracles, untouched)


def test_more_tests_widen_and_more_samples_and_oracles_sharpen():
    candidate, *oracles = models(6, 0.0, *[0.0] * 8)
    few, many = (paired_test(candidate, oracles, tests=tests) for tests in (1, 9))
    assert many.smallest_visible > few.smallest_visible
    assert width(many.difference) > width(few.difference)
    assert paired_test(candidate, oracles[:2]).smallest_visible > few.smallest_visible
    larger, *others = models(6, 0.0, *[0.0] * 8, size=400)
    assert paired_test(larger, others).smallest_visible < few.smallest_visible


@pytest.mark.parametrize("between", [0.0, 0.1])
def test_oracles_are_rarely_accused_and_leaks_mostly_found(between):
    """Of one test at 5 %; whole audits are simulated in bench/verdicts.py."""
    accused = found = 0
    for seed in range(100):
        leaking, candidate, *oracles = models(seed, 0.9, 0, 0, 0, 0, 0, size=100, between=between)
        accused += paired_test(candidate, oracles).finding != "within"
        found += paired_test(leaking, oracles).finding == "leak"
    assert accused <= 8
    assert found >= 90


def test_what_cannot_be_compared_is_refused():
    one, (longer, *_) = scores([1, 2], [1, 2]), models(0, 0.0)
    with pytest.raises(PfedulError, match="at least one oracle"):
        paired_test(one, [])
    with pytest.raises(PfedulError, match="same samples"):
        paired_test(one, [longer])
    with pytest.raises(PfedulError, match="two members"):
        scores([1], [1, 2])
    with pytest.raises(PfedulError, match="NaN"):
        scores([1, math.nan], [1, 2])
    two_views = Scores(np.zeros((1, 2, 2)), np.zeros((1, 2, 2)))
    with pytest.raises(PfedulError, match="views"):
        paired_test(one, [two_views])
    with pytest.raises(PfedulError, match="folds and views"):
        Scores(np.zeros((1, 2, 2)), np.zeros((1, 1, 2)))


def test_a_sum_of_variances_is_worth_no_more_than_its_parts_together():
    assert freedom_of_sum([1, 0], [3, 5]) == 3
    assert 3 <= freedom_of_sum([1, 2], [3, 5]) <= 8
    with pytest.raises(PfedulError, match="Student"):
        student_quantile(0.975, 0.5)


def kept(model, share, memory):
    """The same model, with only a share of what it remembered."""
    return Scores(model.members - (1 - share) * memory, model.nonmembers)


def several(seed, share, count=3, memory=1.2, size=150):
    """As many tests of one candidate, each on samples that differ for the attacker."""
    tests = []
    for place in range(count):
        before, *oracles = models(100 * seed + place, memory, *[0.0] * 4, size=size)
        tests.append(paired_test(kept(before, share, memory), oracles, before, tests=count))
    return tests


def test_the_overall_share_of_one_test_is_its_own():
    (one,) = several(0, 0.3, count=1)
    assert overall_removed([one]).value == pytest.approx(one.removed.value)
    assert overall_removed([one]).interval == pytest.approx(one.removed.interval)
    assert overall_removed([one, one]).interval == pytest.approx(one.removed.interval)


def test_errors_that_tests_do_not_have_in_common_cancel():
    tests = several(1, 0.3)
    overall = overall_removed(tests)
    assert width(overall) < 0.8 * sum(width(test.removed) for test in tests) / len(tests)
    before = sum(test.untouched_difference.value for test in tests)
    after = sum(test.difference.value for test in tests)
    assert overall.value == pytest.approx(1 - after / before)


def test_tests_that_saw_no_leak_before_do_not_count():
    tests = several(2, 0.3)
    blind = several(3, 1.0, count=1, memory=0.0)
    assert not blind[0].leaked
    assert overall_removed([*tests, *blind]).value == overall_removed(tests).value
    assert overall_removed(blind) is None


def test_the_interval_of_the_overall_share_covers_what_is_gone():
    """A model that kept so much that it leaks half as much, told by very many samples."""
    truth = overall_removed(several(9, 0.5, size=20_000)).value
    found = [overall_removed(several(seed, 0.5)) for seed in range(40)]
    assert sum(one.ends[0] <= truth <= one.ends[1] for one in found) >= 36
