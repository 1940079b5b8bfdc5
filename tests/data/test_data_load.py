"""From words to every client's data."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pfedul.data.datasets import DATASETS
from pfedul.data.load import load_clients, thin
from pfedul.data.partitions import PARTITIONS
from pfedul.data.samples import fingerprint
from pfedul.errors import PfedulError


def digits(partition="iid", clients=None, seed=0, **more):
    return load_clients("digits", partition, clients, seed, None, **more)


def rows(data, part="train"):
    return torch.cat([getattr(client, part).x for client in data.clients.values()])


def test_the_choices_are_known_by_name():
    assert next(kind.name for kind in DATASETS) == "digits"
    assert {kind.name for kind in DATASETS} == {
        *("digits", "fashion-mnist", "cifar10", "cifar100", "femnist", "sentences", "npz")
    }
    assert {kind.name for kind in PARTITIONS} == {
        *("dirichlet", "iid", "pathological", "natural", "imbalanced", "rare-class")
    }


@pytest.mark.parametrize("partition", ["iid", "dirichlet", "pathological", "rare-class"])
def test_all_digits_reach_a_client(partition):
    data = digits(partition)
    assert list(data.clients) == [f"client-{number:02d}" for number in range(10)]
    assert (len(rows(data)), len(rows(data, "test")), data.classes) == (1438, 359, 10)
    assert data.warnings == ()


def test_the_seed_decides_the_partition():
    def prints(**changes):
        clients = digits("dirichlet", **changes).clients
        return {name: fingerprint(client) for name, client in clients.items()}

    assert prints() == prints()
    assert not set(prints().values()) & set(prints(seed=1).values())


def test_the_first_client_of_imbalanced_holds_its_share():
    sizes = [len(client.train) for client in digits("imbalanced:0.3").clients.values()]
    assert sizes[0] == pytest.approx(0.3 * 1438, abs=1)
    assert sizes[0] == max(sizes)


def test_fewer_samples_shrink_both_parts_alike():
    data = digits(samples=719)
    assert (len(rows(data)), len(rows(data, "test"))) == (719, 180)
    assert len(rows(digits(samples=5000))) == 1438


def test_test_samples_are_chosen_apart_from_training_samples():
    data = digits(samples=300, test_samples=359)
    assert (len(rows(data)), len(rows(data, "test"))) == (300, 359)
    assert len(rows(digits(test_samples=100))) == 1438
    with pytest.raises(PfedulError, match="test_samples' must be at least 1"):
        digits(test_samples=0)


def test_thinned_samples_keep_their_label_and_owner(toy):
    thinned = thin(toy, 12, seed=3)
    values = thinned.train.x[:, 0].long()
    assert len(set(values.tolist())) == 12
    assert thinned.train.y.tolist() == (values % 3).tolist()
    assert thinned.owners.train.tolist() == np.array(["a", "b", "c"])[values // 20].tolist()
    assert (len(thinned.test), len(thinned.owners.test)) == (6, 6)
    assert torch.equal(thinned.train.x, thin(toy, 12, seed=3).train.x)
    assert not torch.equal(thinned.train.x, thin(toy, 12, seed=4).train.x)


def test_small_clients_are_refused_by_name_and_count():
    with pytest.raises(PfedulError) as caught:
        digits("dirichlet:0.02")
    said = str(caught.value)
    assert "of 10 clients hold fewer than 10 training samples" in said
    assert "client-0" in said
    assert "--small-clients drop" in said


def test_small_clients_can_be_left_out_with_a_warning_each():
    data = digits("dirichlet:0.02", small_clients="drop")
    left_out = [line for line in data.warnings if "left out as too small" in line]
    assert 0 < len(data.clients) < 10
    assert len(left_out) == 10 - len(data.clients)
    assert all(len(client.train) >= 10 and len(client.test) for client in data.clients.values())


def test_what_is_small_can_be_chosen():
    with pytest.raises(PfedulError, match="10 of 10 clients hold fewer than 145"):
        digits(min_samples=145)
    assert len(digits(min_samples=143).clients) == 10


def test_when_all_are_small_dropping_is_no_way_out():
    with pytest.raises(PfedulError, match="try fewer clients or another seed"):
        digits(clients=359, small_clients="drop")


def test_classes_that_nobody_holds_are_told():
    (warning,) = digits("pathological:1", clients=7).warnings
    assert warning.startswith("No client holds training samples of these classes: ")
    assert warning.count(",") == 2


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ({"clients": 0}, "'clients' must be at least 1"),
        ({"clients": 1439}, "1439 clients but only 1438"),
        ({"samples": 0}, "'samples' must be at least 1"),
        ({"min_samples": 0}, "'min_samples' must be at least 1"),
        ({"small_clients": "keep"}, "'error' or 'drop'"),
        ({"partition": "natural"}, "femnist"),
        ({"partition": "shards"}, "Unknown partition"),
    ],
)
def test_mistakes_are_named(mistake, words):
    with pytest.raises(PfedulError, match=words):
        digits(**mistake)


def test_own_owners_become_clients(tmp_path):
    names = np.repeat(["north 1", "south"], 50)
    x = np.repeat([[0.0], [1.0]], 50, axis=0)
    np.savez(tmp_path / "own.npz", x=x, y=np.arange(100) % 2, client=names)
    data = load_clients("npz:own.npz", "natural", None, 0, tmp_path)
    assert list(data.clients) == ["north-1", "south"]
    assert data.clients["south"].train.x.unique().tolist() == [1.0]
    assert len(data.clients["south"].train) == 40


def test_real_writers_become_clients(real_data):
    data = load_clients("femnist", "natural", 5, 0, real_data("femnist"))
    assert len(data.clients) == 5
    assert all(name.startswith("f") for name in data.clients)


def test_real_images_are_dealt_whole(real_data):
    root = real_data("cifar10")
    data = load_clients("cifar10", "dirichlet:0.5", 10, 0, root, samples=2000)
    assert rows(data).shape == (2000, 3, 32, 32)
    assert len(rows(data).flatten(1).sum(1).unique()) > 1950
