"""Controls that a method must beat: from scratch with the old heads, CT, FedMemPrune, nothing."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from helpers import linear
from helpers.at_request import context_on
from helpers.forgetting_kill import TARGET, copied, deep_again, trained
from helpers.toys import tensor_digests
from pfedul import Federation
from pfedul.base.tensorfile import read_file
from pfedul.unlearn.methods import METHODS, ct
from pfedul.unlearn.methods.ct import square_kernels, transposed
from pfedul.unlearn.methods.fedmemprune import _new_model, least, redrawn

OTHERS = [client for client in linear.SIZES if client != linear.TARGET]
WEIGHTS = [linear.SIZES[client] for client in OTHERS]


def cosine_rounds(w, rounds):
    """Rounds of one step each, along a cosine."""
    for number in range(rounds):
        rate = linear.RATE * (1 + math.cos(math.pi * number / rounds)) / 2
        steps = [linear.cross_entropy_gradient(w, client) for client in OTHERS]
        w = w - rate * np.average(steps, axis=0, weights=WEIGHTS)
    return w


@pytest.fixture
def matrix(tmp_path):
    with linear.federation(tmp_path / "run") as federation:
        federation.train()
        yield federation


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("controls") / "run", record="all")


# From scratch, with the old heads


def test_old_heads_by_hand(matrix):
    initial = read_file(matrix.store.path / "init.safetensors")[linear.NAME].numpy()
    outcome = matrix.forget(linear.TARGET, method="old-heads:rounds=3")
    linear.assert_close(matrix.shared[linear.NAME], cosine_rounds(initial, 3))
    assert outcome.rounds == 3


def test_the_others_keep_their_old_personal_parts_and_no_record_is_left(start, tmp_path):
    run = copied(start, tmp_path / "run")
    before = tensor_digests(run)
    with deep_again(run) as federation:
        options = {"method": "old-heads:rounds=1", "no_recalibration": True}
        outcome = federation.forget(TARGET, **options)
        assert not federation.store.names("records/")
    after = tensor_digests(run)
    assert all(after[file] == before[file] for file in after if file.startswith("clients/"))
    assert after["init.safetensors"] == before["init.safetensors"]
    assert "are erased" in outcome.notes[0]


def test_a_comparison_shows_it_at_other_costs_too():
    assert METHODS["old-heads"].about.variants == (
        "old-heads:rounds=1",
        "old-heads:rounds=2",
        "old-heads:rounds=8",
    )


# CT


def kernels() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(2, 2, (1, 3), padding=(0, 1)),
        nn.Conv2d(2, 3, 1),
        nn.Flatten(),
        nn.Linear(48, 48),
        nn.Linear(48, 3),
    )


def test_square_kernels_of_convolutions_are_transposed_and_nothing_else():
    model = kernels()
    names = tuple(name for name, _ in model.named_parameters())
    assert square_kernels(model, names) == ("0.weight", "3.weight")
    assert square_kernels(model, names[1:]) == ("3.weight",)
    shared = dict(model.state_dict())
    once = transposed(shared, ("0.weight",))
    assert torch.equal(once["0.weight"], shared["0.weight"].swapaxes(2, 3))
    assert [name for name in shared if once[name] is not shared[name]] == ["0.weight"]
    twice = transposed(once, ("0.weight",))
    assert all(torch.equal(twice[name], shared[name]) for name in shared)


def test_ct_begins_with_the_transposed_kernels_and_trains_them(tmp_path, monkeypatch):
    draw = torch.Generator().manual_seed(0)
    parts = {
        f"c{n}": (torch.randn(12, 1, 4, 4, generator=draw), torch.arange(12) % 3) for n in range(3)
    }
    data = {client: (part, part) for client, part in parts.items()}
    starts = []
    settings = {"personalization": "fedper", "rounds": 1, "local_epochs": 1, "engine": "inline"}
    with Federation.create(tmp_path / "run", data=data, model=kernels, **settings) as federation:
        federation.train()
        before = federation.shared

        def fine_tuned(ctx, shared, *how, **more):
            starts.append(shared)
            return usual(ctx, shared, *how, **more)

        usual = ct.fine_tuned
        monkeypatch.setattr(ct, "fine_tuned", fine_tuned)
        outcome = federation.forget("c1", method="ct")
        after = federation.shared
    expected = transposed(before, ("0.weight", "3.weight"))
    assert all(torch.equal(starts[0][name], tensor) for name, tensor in expected.items())
    assert not torch.equal(after["0.weight"], expected["0.weight"])
    assert outcome.rounds == 3
    assert "CT transposed the kernels of 2 layers" in outcome.notes


def test_without_convolutions_ct_is_rounds_alone_and_says_so(matrix):
    w = linear.weight(matrix)
    outcome = matrix.forget(linear.TARGET, method="ct:rounds=2")
    linear.assert_close(matrix.shared[linear.NAME], cosine_rounds(w, 2))
    assert "CT transposed the kernels of 0 layers" in outcome.notes


# FedMemPrune


def test_fedmemprune_by_hand(matrix, monkeypatch):
    w, drawn = linear.weight(matrix), torch.arange(12.0).double().view(3, 4)
    steps = [linear.cross_entropy_gradient(w, client) for client in OTHERS]
    moved = linear.RATE * np.average(steps, axis=0, weights=WEIGHTS)
    after = w - moved
    order = np.argsort(np.abs(moved), axis=None)[:5]  # 0.4 of 12
    after.flat[order] = drawn.numpy().flat[order]
    new = "pfedul.unlearn.methods.fedmemprune._new_model"
    monkeypatch.setattr(new, lambda _ctx: {linear.NAME: drawn})
    outcome = matrix.forget(linear.TARGET, method="fedmemprune:rounds=2")
    linear.assert_close(matrix.shared[linear.NAME], cosine_rounds(after, 2))
    assert outcome.rounds == 3


def test_one_ranking_over_all_tensors():
    moves = {"a": torch.tensor([0.1, 5.0]), "b": torch.tensor([[0.2], [0.3]])}
    masks = least(moves, 0.5)
    assert masks["a"].tolist() == [True, False]
    assert masks["b"].tolist() == [[True], [False]]
    shared = {"a": torch.ones(2), "b": torch.ones(2, 1), "n": torch.tensor(3)}
    found = redrawn(shared, masks, {"a": torch.zeros(2), "b": torch.zeros(2, 1)})
    assert found["a"].tolist() == [0, 1]
    assert found["b"].tolist() == [[0], [1]]
    assert found["n"] is shared["n"]


def test_what_is_drawn_again_is_neither_the_old_nor_the_initial_tensor(start):
    with deep_again(start) as federation:
        ctx = context_on(federation, TARGET)
        one, two = _new_model(ctx), _new_model(ctx)
        assert torch.equal(one["two.weight"], two["two.weight"])
        for known in (ctx.initial, ctx.shared):
            assert not torch.isclose(one["two.weight"], known["two.weight"]).any()


# Recalibration alone


def test_recalibration_alone_leaves_every_shared_parameter(start, tmp_path):
    run = copied(start, tmp_path / "run")
    with deep_again(run) as federation:
        before, names = federation.shared, federation.bench.split.parameters
        outcome = federation.forget(TARGET, method="recalibration", allow_unchanged=True)
        assert all(torch.equal(before[name], federation.shared[name]) for name in names)
        assert not torch.equal(before["norm.running_mean"], federation.shared["norm.running_mean"])
    assert outcome.rounds == 0
    assert outcome.options["recalibration_epochs"] is None
    files = {f"clients/{client}/personal.safetensors" for client in ("c0", "c2", "c3")}
    assert all(tensor_digests(run)[file] != tensor_digests(start)[file] for file in files)
