"""NoT: which layer is the first, and that turning it twice is turning it not at all."""

import pytest
import torch
from torch import nn

from helpers.at_request import context_on
from helpers.forgetting_kill import TARGET, copied, deep_again, trained
from helpers.linear import (
    MEAN,
    NAME,
    NORMED_NAME,
    SIZES,
    VARIANCE,
    assert_close,
    fedavg_round,
    federation,
    moved_statistics,
    moving,
    normed,
    weight,
)
from helpers.linear import TARGET as LINEAR_TARGET
from helpers.toys import QUICK, Tied, client_data
from pfedul import Federation
from pfedul.errors import PfedulError
from pfedul.unlearn.methods.negation import first_layer, forward_order, negated


def test_negated_twice_is_as_if_nothing_had_been_done():
    shared = {"w": torch.randn(3, 2), "b": torch.randn(3), "n": torch.tensor(4)}
    once = negated(shared, ("w", "b"))
    assert torch.equal(once["w"], -shared["w"])
    assert torch.equal(once["b"], -shared["b"])
    assert once["n"] is shared["n"]
    twice = negated(once, ("w", "b"))
    assert all(torch.equal(twice[name], shared[name]) for name in shared)


def test_negation_and_rounds_by_hand(tmp_path):
    others = [client for client in SIZES if client != LINEAR_TARGET]
    with federation(tmp_path / "run") as linear:
        linear.train()
        expected = -weight(linear)
        for _ in range(2):
            expected = fedavg_round(expected, others)
        outcome = linear.forget(LINEAR_TARGET, method="not:rounds=2")
        assert_close(linear.shared[NAME], expected)
    assert outcome.rounds == 2
    assert "no other shared layer" in outcome.notes[-1]


def test_statistics_move_while_the_others_repair(tmp_path):
    others = [client for client in SIZES if client != LINEAR_TARGET]
    with federation(tmp_path / "run", model=normed) as with_norm:
        with_norm.train()
        expected = -weight(with_norm, NORMED_NAME)
        statistics = moved_statistics(with_norm.shared, others, rounds=2, epochs=1)
        for _ in range(2):
            expected = fedavg_round(expected, others, data=moving())
        with_norm.forget(LINEAR_TARGET, method="not:rounds=2")
        assert_close(with_norm.shared[NORMED_NAME], expected)
        for name, values in zip((MEAN, VARIANCE), statistics, strict=True):
            assert_close(with_norm.shared[name], values)


def test_where_training_turns_the_sign_back_a_note_says_so(tmp_path):
    """One matrix has one best value: enough rounds find it again."""
    with federation(tmp_path / "run") as linear:
        linear.train()
        outcome = linear.forget(LINEAR_TARGET, method="not:rounds=30")
    assert "before and after is +" in outcome.notes[0]
    assert "turned the sign back" in outcome.notes[1]


class Backwards(nn.Module):
    """Defined in another order than used, behind a norm with a matrix of weights."""

    head_name = "head"

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 3)
        self.last = nn.Linear(6, 6)
        self.norm = nn.LayerNorm((1, 4))
        self.first = nn.Linear(4, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x[:, None])[:, 0]
        return self.head(self.last(self.first(x).relu()).relu())


def created(run, model, **settings) -> Federation:
    return Federation.create(run, data=client_data(), model=model, **{**QUICK, **settings})


def test_the_first_layer_is_the_first_that_a_sample_meets_and_never_a_norm(tmp_path):
    with created(tmp_path / "run", Backwards) as federated:
        layer = first_layer(context_on(federated, federated.clients[0]))
    assert (layer.name, layer.weights, layer.biases) == (
        "first",
        ("first.weight",),
        ("first.bias",),
    )
    assert not layer.alone


def test_without_a_sample_the_order_is_that_of_the_definition():
    assert forward_order(Backwards(), None) == []
    assert forward_order(Backwards(), torch.zeros(1, 4))[:2] == ["norm", "first"]


def test_a_tied_matrix_is_turned_under_both_its_names(tmp_path):
    with created(tmp_path / "run", Tied) as federated:
        assert first_layer(context_on(federated, federated.clients[0])).weights == (
            "one.weight",
            "two.weight",
        )
        federated.train()
        federated.forget("c1", method="not:rounds=1")
        shared = federated.shared
    assert torch.equal(shared["one.weight"], shared["two.weight"])


class OnlyVectors(nn.Module):
    """Nothing but a head has a matrix."""

    head_name = "head"

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(x))


def test_a_model_that_shares_no_matrix_is_refused_before_anything_is_done(tmp_path):
    with created(tmp_path / "run", OnlyVectors) as federated:
        federated.train()
        with pytest.raises(PfedulError, match="shares none") as refusal:
            federated.forget("c1", method="not")
        assert "\n" not in str(refusal.value)
        assert not federated.store.ledger.rows("SELECT * FROM requests")


@pytest.fixture(scope="module")
def fedbn(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("not") / "run", personalization="fedbn", lr=0.05)


def cosine(copy, rounds: int) -> tuple[float, tuple[str, ...]]:
    """Between the layer before and after, computed here."""
    with deep_again(copy) as federated:
        before = federated.shared["one.weight"].flatten().clone()
        outcome = federated.forget(TARGET, method=f"not:rounds={rounds}")
        after = federated.shared["one.weight"].flatten()
    found = torch.nn.functional.cosine_similarity(before, after, dim=0)
    return float(found), outcome.notes


def test_the_note_says_how_far_the_sign_came_back(fedbn, tmp_path):
    few, notes = cosine(copied(fedbn, tmp_path / "few"), 1)
    many, more = cosine(copied(fedbn, tmp_path / "many"), 40)
    assert f"before and after is {few:+.2f}" in notes[0]
    assert f"before and after is {many:+.2f}" in more[0]
    assert few < many
    assert few < 0
    assert len(notes) == 1


def test_the_bias_is_turned_unless_told_otherwise(fedbn, tmp_path):
    found = []
    for number, told in enumerate(["", ",bias=True", ",bias=False"]):
        with deep_again(copied(fedbn, tmp_path / str(number)), engine="inline") as federated:
            before = federated.shared["one.bias"].clone()
            federated.forget(TARGET, method=f"not:rounds=1{told}")
            found.append(float((federated.shared["one.bias"] - before).norm()))
    usual, turned, kept = found
    assert usual == turned > before.norm() > kept


class FlatBias(nn.Module):
    """A layer whose bias has two dimensions."""

    head_name = "head"

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 6)
        self.body.bias = nn.Parameter(torch.randn(1, 6))
        self.head = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head((x @ self.body.weight.T + self.body.bias).relu())


def test_a_bias_is_one_whatever_its_shape(tmp_path):
    with created(tmp_path / "run", FlatBias) as federated:
        layer = first_layer(context_on(federated, federated.clients[0]))
    assert (layer.weights, layer.biases) == (("body.weight",), ("body.bias",))
