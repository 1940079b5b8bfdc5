"""The fixed split of data that have no official one."""

from __future__ import annotations

import numpy as np
import pytest

from pfedul.base.randomness import numpy_generator
from pfedul.data.samples import stratified_split


def test_every_class_gives_a_fifth_and_nothing_is_lost():
    labels = np.repeat(np.arange(4), [50, 100, 13, 4])
    train, test = stratified_split(labels)
    assert sorted([*train, *test]) == list(range(len(labels)))
    for label, count in enumerate([50, 100, 13, 4]):
        assert abs((labels[test] == label).sum() - count / 5) < 1


def test_every_owner_gives_a_fifth():
    rng = np.random.default_rng(0)
    labels, owners = rng.integers(0, 10, 300), np.repeat(["a", "b", "c"], [100, 150, 50])
    _, test = stratified_split(labels, owners)
    assert [int((owners[test] == name).sum()) for name in "abc"] == [20, 30, 10]


def test_it_is_the_same_every_time_but_not_in_file_order():
    labels = np.zeros(100, dtype=np.int64)
    first, second = stratified_split(labels), stratified_split(labels)
    assert first[1].tolist() == second[1].tolist()
    assert first[1].tolist() != list(range(2, 100, 5))


def test_a_share_of_a_fifth_is_every_fifth_in_a_drawn_order():
    labels = np.random.default_rng(3).integers(0, 10, 1797)
    order = np.lexsort((numpy_generator(0, "split").random(len(labels)), labels))
    assert stratified_split(labels)[1].tolist() == sorted(order[2::5].tolist())


@pytest.mark.parametrize("share", [0.05, 0.5, 0.8])
def test_another_share_is_taken_of_every_class(share):
    labels = np.repeat(np.arange(4), [50, 100, 13, 40])
    train, test = stratified_split(labels, share=share)
    assert sorted([*train, *test]) == list(range(len(labels)))
    for label, count in enumerate([50, 100, 13, 40]):
        assert abs((labels[test] == label).sum() - share * count) <= 1
