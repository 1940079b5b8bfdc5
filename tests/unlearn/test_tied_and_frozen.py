"""Tied tensors count once and stay one; what the model's author froze stays as it is."""

import math

import pytest
import torch
from torch import nn

from helpers.at_request import context_on
from helpers.forgetting_kill import copied
from helpers.methods import SPECS
from helpers.toys import QUICK, Tied, client_data
from pfedul import Federation
from pfedul.records.norms import read_lengths
from pfedul.records.psi import read_psi
from pfedul.records.sums import read_sum, read_total
from pfedul.records.uploads import last_upload
from pfedul.unlearn.methods.fedosd import updates
from pfedul.unlearn.methods.negation import first_layer

TARGET = "c1"


class Frozen(nn.Module):
    """A first layer that is never trained, and a second of which the bias is not."""

    head_name = "head"

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(4, 5)
        self.two = nn.Linear(5, 5)
        self.head = nn.Linear(5, 3)
        self.one.requires_grad_(False)
        self.two.bias.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.two(self.one(x).relu()).relu())


STILL = ("one.weight", "one.bias", "two.bias")


def trained(run, model, **settings):
    chosen = {**QUICK, "personalization": "fedavg", "record": "all", "rounds": 2, **settings}
    with Federation.create(run, data=client_data(), model=model, **chosen) as federation:
        federation.train()
    return run


def opened(run, model) -> Federation:
    return Federation.open(run, data=client_data(), model=model)


@pytest.fixture(scope="module")
def tied(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("tied") / "run", Tied)


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("frozen") / "run", Frozen)


@pytest.mark.parametrize("name", sorted(SPECS.keys() - {"none", "knot", "zerofu", "recalibration"}))
def test_a_tied_tensor_changes_under_all_its_names_alike(name, tied, tmp_path):
    """ZeroFU is left out: where labels are even, it changes nothing."""
    with opened(copied(tied, tmp_path / "run"), Tied) as federation:
        before = federation.shared["two.weight"].clone()
        federation.forget(TARGET, method=SPECS[name])
        after = federation.shared
        assert torch.equal(after["one.weight"], after["two.weight"])
        if name != "pfedul":  # which chooses its layers, and need not choose this one
            assert not torch.equal(after["two.weight"], before)


def square(one, other) -> float:
    """The squared distance of two models, each tensor counted once."""
    names = ("one.weight", "two.bias", "head.weight", "head.bias")
    return sum(float((one[name].double() - other[name].double()).square().sum()) for name in names)


def test_records_count_a_tied_tensor_once(tmp_path):
    run = trained(tmp_path / "run", Tied, rounds=1)
    with opened(run, Tied) as federation:
        initial, shared = federation.store.read("init.safetensors"), dict(federation.shared)
        _, sent = last_upload(federation.store, "c0")
        # Three clients of one size: w / (1 - w) is a half.
        psi = math.sqrt(square(sent, shared)) / 2
        assert read_psi(federation.store, "c0").values[0] == pytest.approx(psi, rel=1e-4)
        total = read_total(federation.store)
        assert total.squares == pytest.approx(square(shared, initial), rel=1e-4)
        lengths = read_lengths(federation.store, "c0").at(1, "before")
        whole = math.hypot(*lengths.values())
        assert whole == pytest.approx(math.sqrt(square(sent, initial)), rel=1e-4)
        assert read_sum(federation.store, "c0")[1].keys() == lengths.keys()


def test_rows_of_fedosd_have_each_parameter_once(tied):
    with opened(tied, Tied) as federation:
        work = context_on(federation, TARGET)
        target, rows = updates(work, work.shared, rate=0.1, epochs=1)
    parameters = sum(p.numel() for p in Tied().parameters())
    assert len(target) == rows.shape[1] == parameters


def test_the_noise_of_a_tied_tensor_is_drawn_once_and_not_twice_as_strong(tied, tmp_path):
    with opened(copied(tied, tmp_path / "run"), Tied) as federation:
        before = federation.shared["one.weight"].clone()
        source = context_on(federation, TARGET).generator("noise")
        drawn = torch.randn(4, 4, generator=source, dtype=torch.float64)
        federation.forget(TARGET, method="fedrecovery:gamma=0,sigma=0.5")
        for name in ("one.weight", "two.weight"):
            moved = federation.shared[name].double() - before
            torch.testing.assert_close(moved, 0.5 * drawn, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("method", ["fedrecovery:gamma=0,sigma=0.5", "sifu:rounds=0", "not"])
def test_what_is_frozen_stays_as_it_is(method, frozen, tmp_path):
    with opened(copied(frozen, tmp_path / "run"), Frozen) as federation:
        before = {name: tensor.clone() for name, tensor in federation.shared.items()}
        federation.forget(TARGET, method=method)
        same = {name for name, t in before.items() if torch.equal(federation.shared[name], t)}
    assert same == set(STILL)


def test_the_first_layer_that_is_trained_is_negated_without_its_frozen_bias(frozen):
    with opened(frozen, Frozen) as federation:
        layer = first_layer(context_on(federation, TARGET))
    assert (layer.name, layer.weights, layer.biases) == ("two", ("two.weight",), ())
