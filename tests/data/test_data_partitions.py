"""The shares that each partition draws, and splits of whole data sets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pfedul.base.registry import NoOptions
from pfedul.data.datasets.base import Owners
from pfedul.data.partitions import (
    PARTITIONS,
    dirichlet,
    iid,
    imbalanced,
    natural,
    pathological,
    rare_class,
)
from pfedul.errors import PfedulError

DEALT = ["iid", "dirichlet:0.3", "pathological:2", "imbalanced", "rare-class"]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def split(toy, text, clients=5, seed=0):
    kind, options = PARTITIONS.parse(text)
    return kind.split(toy, clients, seed, options)


def test_iid_gives_everyone_the_same():
    assert np.array_equal(iid.shares(3, 4, rng(), NoOptions()), np.full((3, 4), 0.25))


@pytest.mark.parametrize("alpha", [5e-324, 1e-300, 1e-12, 1e-3, 0.1, 1, 1e3, 1e300])
def test_dirichlet_rows_are_shares_for_any_alpha(alpha):
    shares = dirichlet.draw_shares(20, 10, rng(), alpha)
    assert np.isfinite(shares).all()
    assert (shares >= 0).all()
    assert np.allclose(shares.sum(axis=1), 1)


@pytest.mark.parametrize("alpha", [0.1, 0.5, 5.0])
def test_dirichlet_has_the_mean_and_variance_of_the_distribution(alpha):
    clients = 4
    shares = dirichlet.draw_shares(40_000, clients, rng(), alpha)
    variance = (clients - 1) / (clients**2 * (clients * alpha + 1))
    assert shares.mean(axis=0) == pytest.approx([1 / clients] * clients, rel=0.03)
    assert shares.var(axis=0) == pytest.approx([variance] * clients, rel=0.05)


def test_a_tiny_alpha_gives_each_class_to_one_client_by_chance():
    shares = dirichlet.draw_shares(300, 5, rng(), 1e-6)
    assert np.allclose(shares.max(axis=1), 1)
    assert set(shares.argmax(axis=1)) == set(range(5))


@pytest.mark.parametrize(
    ("classes", "clients", "per_client"), [(10, 10, 2), (10, 7, 3), (62, 40, 5), (5, 3, 5)]
)
def test_pathological_clients_hold_so_many_classes_and_holders_are_balanced(
    classes, clients, per_client
):
    options = pathological.PathologicalOptions(per_client)
    shares = pathological.shares(classes, clients, rng(), options)
    holders = (shares > 0).sum(axis=1)
    assert ((shares > 0).sum(axis=0) == per_client).all()
    assert holders.max() - holders.min() <= 1
    assert holders.min() >= 1
    assert np.allclose(shares.sum(axis=1), 1)
    assert np.allclose(shares.max(axis=1) * holders, 1)


def test_pathological_leaves_out_classes_when_there_are_too_few_places():
    shares = pathological.shares(10, 2, rng(), pathological.PathologicalOptions(3))
    assert sorted(shares.sum(axis=1)) == [0] * 4 + [1] * 6


def test_pathological_refuses_more_classes_than_there_are():
    with pytest.raises(PfedulError, match="4 classes of 3"):
        pathological.shares(3, 2, rng(), pathological.PathologicalOptions(4))


def test_imbalanced_gives_the_first_client_its_share_of_everything():
    shares = imbalanced.shares(6, 5, rng(), imbalanced.ImbalancedOptions(0.4, 0.5))
    assert np.allclose(shares[:, 0], 0.4)
    assert np.allclose(shares[:, 1:].sum(axis=1), 0.6)
    assert shares[:, 1:].std() > 0.05


def test_rare_class_gives_the_first_client_most_of_the_rare_classes_only():
    options = rare_class.RareClassOptions((1, 3), 0.85, 0.5)
    shares = rare_class.shares(200, 5, rng(), options)
    assert np.allclose(shares[[1, 3], 0], 0.85)
    assert np.allclose(shares.sum(axis=1), 1)
    assert np.delete(shares, [1, 3], axis=0)[:, 0].mean() == pytest.approx(0.2, abs=0.05)


def test_rare_class_refuses_a_class_that_is_not_there():
    with pytest.raises(PfedulError, match="no class 10; choose from 0 to 9"):
        rare_class.shares(10, 5, rng(), rare_class.RareClassOptions((0, 10)))


@pytest.mark.parametrize("module", [imbalanced, rare_class])
def test_one_client_cannot_stand_out_alone(module):
    options = {imbalanced: imbalanced.ImbalancedOptions, rare_class: rare_class.RareClassOptions}
    with pytest.raises(PfedulError, match="2 or more"):
        module.shares(10, 1, rng(), options[module]())


@pytest.mark.parametrize(
    "text",
    [
        "dirichlet:0",
        "dirichlet:nan",
        "dirichlet:inf",
        "pathological:0",
        "imbalanced:1",
        "imbalanced:0.2,alpha=-1",
        "rare-class:0+0",
        "rare-class:share=0",
    ],
)
def test_impossible_options_are_refused(text):
    with pytest.raises(PfedulError, match="was refused"):
        PARTITIONS.parse(text)


@pytest.mark.parametrize("text", DEALT)
def test_no_sample_is_in_two_hands_and_none_is_lost(toy, text):
    holdings = split(toy, text).values()
    assert sorted(np.concatenate([held.train for held in holdings])) == list(range(60))
    assert sorted(np.concatenate([held.test for held in holdings])) == list(range(30))


@pytest.mark.parametrize("text", DEALT)
def test_train_and_test_of_a_client_follow_the_same_distribution(toy, text):
    for held in split(toy, text).values():
        train = np.bincount(toy.train.y.numpy()[held.train], minlength=3)
        test = np.bincount(toy.test.y.numpy()[held.test], minlength=3)
        assert np.abs(train / 2 - test).max() <= 1.5


@pytest.mark.parametrize("text", [*DEALT, "natural"])
def test_the_same_seed_gives_the_same_partition(toy, text):
    clients = 2 if text == "natural" else 5
    one, same = split(toy, text, clients), split(toy, text, clients)
    assert list(one) == list(same)
    assert all(np.array_equal(one[name].train, same[name].train) for name in one)
    others = [split(toy, text, clients, seed) for seed in range(1, 9)]
    assert any(
        list(one) != list(other)
        or any(not np.array_equal(one[name].train, other[name].train) for name in one)
        for other in others
    )


def test_the_seed_decides_the_sizes_too(toy):
    sizes = {
        tuple(len(held.train) for held in split(toy, "dirichlet", 3, seed).values())
        for seed in range(5)
    }
    assert len(sizes) == 5


def test_a_partition_is_the_same_in_every_version_and_on_every_platform(toy):
    """Recorded once: a change here changes every user's partitions."""
    held = split(toy, "dirichlet:0.5", 3)["client-01"]
    assert held.train.tolist() == [
        1,
        3,
        6,
        8,
        16,
        17,
        19,
        20,
        22,
        26,
        30,
        32,
        34,
        40,
        46,
        47,
        53,
        54,
        56,
        58,
    ]
    assert held.test.tolist() == [3, 4, 5, 8, 13, 16, 17, 18, 19, 20]


def test_ten_clients_unless_said_otherwise(toy):
    assert list(split(toy, "iid", None)) == [f"client-{number:02d}" for number in range(10)]


def test_more_clients_than_samples_are_refused(toy):
    with pytest.raises(PfedulError, match="61 clients but only 60 training samples"):
        split(toy, "iid", 61)


def test_natural_clients_are_the_owners(toy):
    holdings = split(toy, "natural", None)
    assert list(holdings) == ["a", "b", "c"]
    assert holdings["b"].train.tolist() == list(range(20, 40))
    assert holdings["c"].test.tolist() == list(range(20, 30))


def test_natural_draws_so_many_owners_by_seed(toy):
    drawn = {tuple(split(toy, "natural", 2, seed)) for seed in range(30)}
    assert drawn == {("a", "b"), ("a", "c"), ("b", "c")}


def test_natural_needs_enough_owners(toy):
    with pytest.raises(PfedulError, match="3 owners in the data, fewer than the 4"):
        split(toy, "natural", 4)


def test_natural_needs_owners(toy):
    with pytest.raises(PfedulError, match="femnist"):
        split(replace(toy, owners=None), "natural", None)


def test_an_owner_without_test_samples_is_listed_with_none(toy):
    owners = Owners(toy.owners.train, np.repeat(["a", "b"], 15))
    assert split(replace(toy, owners=owners), "natural", None)["c"].test.tolist() == []


def test_owners_become_safe_names_and_may_not_collide(toy):
    owners = Owners(np.repeat(["Ward 3/b", "x"], 30), np.repeat(["Ward 3/b", "x"], 15))
    assert list(split(replace(toy, owners=owners), "natural", None)) == ["Ward-3-b", "x"]
    owners = Owners(np.repeat(["a b", "a/b"], 30), np.repeat(["a b", "a/b"], 15))
    with pytest.raises(PfedulError, match="would both be called 'a-b'"):
        natural.split(replace(toy, owners=owners), None, 0, NoOptions())
