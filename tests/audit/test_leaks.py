"""Leaks of a random split: exact tests, known AUCs, the share that is left, and the rules."""

import numpy as np
import pytest

from pfedul.audit.judge import instant, instant_verdict
from pfedul.audit.judge.instant import compare
from pfedul.audit.judge.leaks import Draw, Leak, drawn_again, holm, mean_leak, share_left
from pfedul.audit.judge.rules import MOST_LEFT

SURFACES = {"remaining": (3, 0.5), "stale": (1, 2.0), "probe": (1, 1.0)}
"""Views, and what the model before the removal remembers."""


def draw(members=100, nonmembers=60, seed=0, classes=4, draws=399):
    stream = np.random.default_rng(seed)
    strata = (stream.integers(0, classes, count) for count in (members, nonmembers))
    return Draw.of(*strata, seed=seed, draws=draws)


class World:
    """Samples with a difficulty of their own and of their class, and models of them."""

    def __init__(self, seed, **how):
        self.draw = draw(seed=seed, **how)
        self.stream = np.random.default_rng([seed, 1])
        harder = 3 * self.stream.normal(size=self.draw.strata.max() + 1)
        self.difficulty = self.stream.normal(size=len(self.draw.member)) + harder[self.draw.strata]

    def scores(self, memory, views=1):
        noise = 0.5 * self.stream.normal(size=(views, len(self.difficulty)))
        return self.difficulty + noise + memory * self.draw.member

    def leak(self, memory):
        return Leak.of(self.scores(memory), self.draw)

    def model(self, kept):
        return {
            (name, "threshold"): self.scores(kept * memory, views)
            for name, (views, memory) in SURFACES.items()
        }

    def verdict(self, kept, before=1.0):
        return compare(self.model(before), self.model(kept), self.draw)


# Exactness


def test_a_model_that_never_saw_the_target_is_accused_as_often_as_the_level_says():
    p_values = np.array(
        [world.draw.p_values(world.leak(0).ranks) for world in map(World, range(400))]
    )
    for level in (0.05, 0.2, 0.5):
        share = (p_values <= level).mean(axis=0)
        assert (np.abs(share - level) < 3.5 * np.sqrt(level * (1 - level) / 400)).all()


def test_every_stratum_keeps_its_members_and_every_draw_is_as_likely():
    strata = np.array([0, 1, 0, 1, 0, 2])
    member = np.array([True, True, False, False, False, True])
    lots = drawn_again(member, strata, 0, 3000)
    assert (lots[:, strata == 0].sum(axis=1) == 1).all()
    assert (lots[:, strata == 1].sum(axis=1) == 1).all()
    assert lots[:, 5].all()
    assert np.abs(lots[:, strata == 0].mean(axis=0) - 1 / 3).max() < 0.05
    assert (drawn_again(member, strata, 0, 50) == drawn_again(member, strata, 0, 50)).all()


def test_the_smallest_p_value_is_that_of_the_only_draw_like_it():
    alone = Draw.of(np.zeros(3, dtype=int), np.zeros(3, dtype=int), draws=19999)
    high, low = alone.p_values(np.array([5.0, 4, 3, 2, 1, 0]))
    assert high == pytest.approx(1 / 20, abs=0.006)
    assert low == 1


# AUCs


def test_the_auc_counts_pairs():
    one = Draw.of(np.zeros(2, dtype=int), np.zeros(2, dtype=int))
    assert Leak.of(np.array([[4.0, 2.0, 3.0, 1.0]]), one).auc == 0.75
    assert Leak.of(np.array([[1.0, 1.0, 1.0, 1.0]]), one).auc == 0.5


def test_what_a_class_costs_does_not_matter():
    world = World(0)
    scores = world.scores(1.0)
    shifted = scores + 100.0 * world.draw.strata
    scaled = scores * (1 + world.draw.strata)
    first = Leak.of(scores, world.draw)
    assert (Leak.of(shifted, world.draw).ranks == first.ranks).all()
    assert (Leak.of(scaled, world.draw).ranks == first.ranks).all()


def test_over_all_draws_the_mean_auc_is_one_half():
    world = World(3, draws=4000)
    ranks, inside = world.leak(0).ranks, world.draw.member.sum()
    outside = len(ranks) - inside
    aucs = (world.draw.others @ ranks / inside - (inside + 1) / 2 + 0.5) / outside
    assert aucs.mean() == pytest.approx(0.5, abs=0.003)


def test_the_error_is_that_over_many_draws_and_hardly_too_small():
    found = [world.leak(0) for world in map(World, range(300))]
    assert (
        0.95 < np.mean([leak.error for leak in found]) / np.std([leak.auc for leak in found]) < 1.3
    )


def test_views_and_surfaces_are_averaged():
    world = World(1)
    two = world.scores(1.0, views=2)
    apart = [Leak.of(view[None], world.draw) for view in two]
    together = Leak.of(two, world.draw)
    assert together.auc == pytest.approx(np.mean([leak.auc for leak in apart]))
    assert together.error <= max(leak.error for leak in apart)
    assert mean_leak(apart).auc == together.auc


# The share that is left


def test_an_unchanged_model_has_all_of_the_leak_left():
    leak = World(0).leak(2.0)
    share, (low, high) = share_left(leak, leak)
    assert (share, low, high) == pytest.approx((1, 1, 1))


@pytest.mark.parametrize("kept", [0.0, 0.5])
def test_the_interval_of_the_share_covers_the_truth(kept):
    """With 2,000 samples the leaks are known well; intervals are of 100 + 60 samples."""
    large = World(1000, members=1000, nonmembers=1000, draws=1)
    truth = large.leak(2.0 * kept).size / large.leak(2.0).size
    found = [
        share_left(world.leak(2.0), world.leak(2.0 * kept)) for world in map(World, range(200))
    ]
    covered = [low - 0.03 <= truth <= high + 0.03 for _, (low, high) in found]
    assert np.mean(covered) >= 0.93


def test_without_a_leak_before_the_share_is_unknown():
    world = World(0)
    assert share_left(world.leak(0.0), world.leak(0.0)) is None


def test_holm_keeps_the_order_and_never_exceeds_one():
    assert holm([0.2]) == [0.2]
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])


# The rules


LARGE = {"members": 400, "nonmembers": 300, "draws": 999}


@pytest.mark.parametrize(
    ("kept", "before", "how", "verdict"),
    [
        (0.0, 1.0, LARGE, "forgotten"),
        (1.0, 1.0, LARGE, "not forgotten"),
        (0.4, 1.0, LARGE, "partly forgotten"),
        (-0.5, 1.0, LARGE, "over-forgotten"),
        (0.0, 0.0, LARGE, "nothing measurable to forget"),
        (0.0, 0.0, {"members": 20, "nonmembers": 12}, "not enough evidence"),
        (0.0, 0.5, {"members": 30, "nonmembers": 20}, "not enough evidence"),
    ],
)
def test_every_verdict(kept, before, how, verdict):
    found = World(5, **how).verdict(kept, before)
    assert found.verdict() == verdict
    judged = instant_verdict.judged(found, "client-05")
    assert judged.verdict == verdict
    assert "client-05" in judged.sentence
    assert "might not have been seen" in judged.sentence
    assert bool(judged.needed) == (verdict == "not enough evidence")
    assert ("is gone" in judged.sentence) == (found.removed is not None)


def test_nobody_with_half_of_a_leak_left_is_called_forgotten():
    worlds = (World(seed, members=150, nonmembers=80) for seed in range(60))
    assert sum(world.verdict(0.5).verdict() == "forgotten" for world in worlds) <= 3


def test_forgotten_means_a_bound_on_what_is_left():
    found = World(5, **LARGE).verdict(0.0)
    assert found.left[1][1] < MOST_LEFT
    assert found.removed[0] == pytest.approx(1 - found.left[0])
    assert all(row.finding in ("within", "nothing to see") for row in found.rows)


def test_one_surface_that_leaks_is_enough_to_accuse():
    world = World(7, **LARGE)
    before, after = world.model(1.0), world.model(0.0)
    after["probe", "threshold"] = before["probe", "threshold"]
    found = compare(before, after, world.draw)
    assert found.verdict() == "not forgotten"
    assert found.strongest.surface == "probe"
    assert "a freshly trained head" in instant_verdict.judged(found, "c").sentence


def test_a_row_as_plain_data_has_the_form_of_other_levels():
    rows = [instant_verdict.row_data(row) for row in World(5, **LARGE).verdict(0.0).rows]
    stale = next(row for row in rows if row["surface"] == "stale")
    shown = stale["figures"]["candidate"]["value"]
    assert stale["difference"]["value"] == pytest.approx(shown - 0.5, abs=0.0051)
    fallen = stale["figures"]["untouched"]["value"] - stale["figures"]["candidate"]["value"]
    assert stale["reduction"]["value"] == pytest.approx(fallen, abs=0.0151)
    assert stale["reduction"]["interval"][0] > 0
    assert 0 < stale["smallest_visible"] < 0.15
    assert set(stale["p"]) == {"before", "after", "below", "change"}


def test_more_tests_see_less():
    leak = World(0).leak(0.0)
    assert instant.smallest_visible(leak, 8) > instant.smallest_visible(leak, 1)
