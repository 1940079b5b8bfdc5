"""Dealing by shares: nothing twice, nothing lost, no client wronged by rounding."""

from __future__ import annotations

import numpy as np
import pytest

from pfedul.data.partitions.base import deal


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("seed", range(20))
def test_every_sample_goes_to_exactly_one_client(seed):
    draw = rng(seed)
    classes, clients = int(draw.integers(1, 12)), int(draw.integers(1, 40))
    labels = draw.integers(0, classes, int(draw.integers(0, 500)))
    shares = draw.dirichlet(np.full(clients, 0.3), classes)
    hands = deal(labels, shares, draw)
    assert len(hands) == clients
    assert sorted(np.concatenate(hands)) == list(range(len(labels)))


@pytest.mark.parametrize("seed", range(20))
def test_counts_keep_to_the_shares(seed):
    draw = rng(seed)
    labels = draw.integers(0, 5, 400)
    shares = draw.dirichlet(np.full(8, 0.5), 5)
    for client, hand in enumerate(deal(labels, shares, draw)):
        ideal = shares[:, client] * np.bincount(labels, minlength=5)
        assert np.abs(np.bincount(labels[hand], minlength=5) - ideal).max() < 1


def test_known_shares_give_known_counts():
    labels = np.repeat([0, 1], [10, 20])
    first, second = deal(labels, np.array([[0.3, 0.7], [1.0, 0.0]]), rng())
    assert np.bincount(labels[first]).tolist() == [3, 20]
    assert np.bincount(labels[second]).tolist() == [7]


def test_what_is_nobodys_share_stays_with_nobody():
    labels = np.zeros(100, dtype=np.int64)
    hands = deal(labels, np.array([[0.25, 0.5]]), rng())
    assert [len(hand) for hand in hands] == [25, 50]


def test_equal_shares_of_few_samples_leave_no_client_behind():
    """5 samples in each of 20 classes for 50 clients: 2 each, though no class goes round."""
    labels = np.repeat(np.arange(20), 5)
    hands = deal(labels, np.full((20, 50), 1 / 50), rng())
    assert {len(hand) for hand in hands} == {2}


def test_who_has_no_share_of_a_class_gets_none_however_much_was_lost_before():
    """The last client is owed most after the first class, but has no share of the second."""
    labels = np.array([0, 1])
    shares = np.array([[0.52, 0.0, 0.0, 0.48], [0.34, 0.33, 0.33, 0.0]])
    assert deal(labels, shares, rng())[3].tolist() == []


def test_samples_are_dealt_by_chance_and_not_in_file_order():
    labels, shares = np.zeros(100, dtype=np.int64), np.full((1, 2), 0.5)
    one, other = deal(labels, shares, rng(1))[0], deal(labels, shares, rng(2))[0]
    assert one.tolist() != other.tolist()
    assert one.tolist() != list(range(50))
    assert one.tolist() == deal(labels, shares, rng(1))[0].tolist()
