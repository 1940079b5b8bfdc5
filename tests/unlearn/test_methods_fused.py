"""FUSED: critical layers and adapters, with answers known by hand."""

from math import exp

import numpy as np
import pytest
import torch
from torch import nn

from helpers.at_request import context_on
from helpers.forgetting_kill import TARGET, copied, deep_again, trained
from helpers.toys import QUICK, OneWeight, WithNorm, client_data, one_sample_job, samples
from pfedul import Federation
from pfedul.adapters import AdapterKind, fixed_factor, mask_positions
from pfedul.base.tensorfile import read_file
from pfedul.base.tensors import read_tensors
from pfedul.personalization.fedper import FEDPER
from pfedul.unlearn.methods import fused
from pfedul.unlearn.methods.fused import (
    FusedOptions,
    candidates,
    critical_layers,
    moves,
)

PERSONALIZATIONS = ["fedavg", "fedper", "fedrep", "ditto", "fedbn"]
SLOPE = -0.75 / (1 + exp(0.75))
"""Of the loss by the one body weight: logits (0.5, -0.25), class 0, so -0.75 p_1."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fused")
    return {name: trained(folder / name, personalization=name) for name in PERSONALIZATIONS}


def forgotten(run, into, method, **options):
    copy = copied(run, into)
    with deep_again(copy) as federation:
        outcome = federation.forget(TARGET, method=method, **options)
    return read_file(run / "shared.safetensors"), read_file(copy / "shared.safetensors"), outcome


def train_adapter(job, how, values):
    return fused.train_adapter(job, {"what": "train-adapter", **how}, values).tensors


def test_one_step_of_a_sparse_adapter_by_hand():
    how = {"adapter": "sparse", "density": 1.0}
    after = train_adapter(one_sample_job(FEDPER), how, {"body.weight": torch.zeros(1)})
    assert after["body.weight"].tolist() == pytest.approx([-0.1 * SLOPE], rel=1e-5)


def test_one_step_of_lora_by_hand():
    """The slope by B is that by the weight, times scale and A."""
    job, kind = one_sample_job(FEDPER), AdapterKind("lora", seed=5)
    a = float(fixed_factor(kind, "body.weight", job.shared["body.weight"]))
    how = {"adapter": "lora", "seed": 5}
    after = train_adapter(job, how, {"body.weight": torch.zeros(1, 1)})
    assert float(after["body.weight"]) == pytest.approx(-0.1 * 2 * a * SLOPE, rel=1e-5)


@pytest.mark.parametrize("adapter", ["sparse", "lora"])
def test_training_an_adapter_moves_neither_what_is_frozen_nor_statistics(adapter):
    model, split = WithNorm(), FEDPER.split(WithNorm(), "head")
    model(torch.randn(8, 4))
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    shared = {name: state[name] for name in split.shared}
    job = one_sample_job(FEDPER)
    job = type(job)(
        "c0", model, split, "head", shared, {n: state[n] for n in split.personal},
        samples(20), job.training, job.options,
    )  # fmt: skip
    size = (3,) if adapter == "sparse" else (8, 4)
    how = {"adapter": adapter, "density": 0.1, "epochs": 3}
    after = train_adapter(job, how, {"body.0.weight": torch.zeros(size)})
    assert after["body.0.weight"].abs().max() > 0
    assert after.keys() == {"body.0.weight"}
    found = read_tensors(model, state)
    assert all(torch.equal(found[name], state[name]) for name in state)
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("personalization", PERSONALIZATIONS)
def test_candidates_are_shared_matrices_and_never_personal(personalization, runs):
    with deep_again(runs[personalization]) as federation:
        found = set(candidates(context_on(federation, TARGET)))
    expected = {"one.weight", "two.weight", "three.weight"}
    assert found == expected | (
        {"head.weight"} if personalization in {"fedavg", "ditto", "fedbn"} else set()
    )


class ManyMatrices(nn.Module):
    """Two matrices among normalisations and biases that are matrices as well."""

    head_name = "head"

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm((2, 2))
        self.body = nn.Linear(4, 6)
        self.bias = nn.Parameter(torch.zeros(1, 6))
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        x = self.norm(x.view(-1, 2, 2)).flatten(1)
        return self.head((self.body(x) + self.bias).relu())


def test_neither_normalisations_nor_biases_are_candidates_whatever_their_shape(tmp_path):
    settings = {**QUICK, "personalization": "fedavg"}
    with Federation.create(
        tmp_path / "run", data=client_data(), model=ManyMatrices, **settings
    ) as federation:
        assert federation.shared["norm.weight"].ndim == federation.shared["bias"].ndim == 2
        assert candidates(context_on(federation, "c1")) == ["body.weight", "head.weight"]


def tiny_data():
    """Two clients of one sample each, and one of three equal ones."""
    parts = {"a": ([1.0], [0]), "b": ([2.0], [1]), "c": ([-1.0] * 3, [0] * 3)}
    pairs = {n: (torch.tensor(x)[:, None], torch.tensor(y)) for n, (x, y) in parts.items()}
    return {name: (pair, pair) for name, pair in pairs.items()}


def slopes(x: float, y: int, body: float, head: np.ndarray) -> tuple[float, np.ndarray]:
    """Of the cross-entropy of the model of one weight, by body and head, in numpy."""
    logits = head * body * x
    wrong = np.exp(logits) / np.exp(logits).sum() - np.eye(2)[y]
    return float(wrong @ head * x), wrong * body * x


@pytest.mark.parametrize("measure", ["sum", "mean"])
@pytest.mark.parametrize("cli", ["all", "remaining"])
def test_the_moves_of_layers_are_those_computed_in_numpy(cli, measure, tmp_path):
    settings = {"personalization": "fedavg", "local_epochs": 1, "lr": 0.1, "momentum": 0.0}
    with Federation.create(
        tmp_path / "run", data=tiny_data(), model=OneWeight, engine="inline", **settings
    ) as federation:
        federation.train(1)
        work = context_on(federation, "b")
        found = moves(work, FusedOptions(cli=cli, measure=measure))
        order = critical_layers(work, FusedOptions(cli=cli, measure=measure, layers=1))
        body = float(federation.shared["body.weight"])
        head = federation.shared["head.weight"].flatten().double().numpy()
    who = [(1.0, 0, 1), (-1.0, 0, 3)] + ([(2.0, 1, 1)] if cli == "all" else [])
    weights = np.array([count for _, _, count in who]) / sum(count for _, _, count in who)
    each = [slopes(x, y, body, head) for x, y, _ in who]
    by_body = 0.1 * float(weights @ [abs(b) for b, _ in each])
    by_head = 0.1 * float(weights @ [np.abs(h).sum() for _, h in each])
    if measure == "mean":
        by_head /= 2
    assert float(found["body.weight"]) == pytest.approx(by_body, rel=1e-4)
    assert float(found["head.weight"]) == pytest.approx(by_head, rel=1e-4)
    assert order == ["head.weight" if by_head > by_body else "body.weight"]


@pytest.mark.parametrize("adapter", ["sparse", "lora"])
@pytest.mark.parametrize("epochs", [1, 2])
def test_rounds_of_an_adapter_are_those_computed_in_numpy(adapter, epochs, tmp_path):
    """Client c has three samples and counts three times as much as a; b is the target."""
    settings = {"personalization": "fedper", "local_epochs": 1, "lr": 0.1, "momentum": 0.0}
    with Federation.create(
        tmp_path / "run", data=tiny_data(), model=OneWeight, engine="inline", **settings
    ) as federation:
        federation.train(1)
        body = federation.shared["body.weight"].clone()
        heads = {c: federation.personal(c)["head.weight"].flatten().numpy() for c in "ac"}
        seed = context_on(federation, "b").generator("adapter").initial_seed()
        spec = f"fused:adapter={adapter},density=1,rounds=2,epochs={epochs},cli=remaining"
        federation.forget("b", method=spec)
        found = float(federation.shared["body.weight"])
    # A value v stands for v times this change of the weight.
    kind = AdapterKind("lora", seed=seed)
    unit = 2 * float(fixed_factor(kind, "body.weight", body)) if adapter == "lora" else 1.0
    value = 0.0
    for _ in range(2):
        ends = []
        for client, (x, y) in {"a": (1.0, 0), "c": (-1.0, 0)}.items():
            own = value
            for _ in range(epochs):
                slope, _ = slopes(x, y, float(body) + unit * own, heads[client])
                own -= 0.1 * unit * slope
            ends.append(own)
        value = (ends[0] + 3 * ends[1]) / 4
    assert found - float(body) == pytest.approx(unit * value, rel=1e-4)
    assert abs(ends[0] - ends[1]) > 1e-3, "weights of clients would not matter"


@pytest.mark.parametrize("personalization", PERSONALIZATIONS)
def test_after_averaging_only_masked_places_of_the_chosen_layers_have_changed(
    personalization, runs, tmp_path
):
    method = "fused:rounds=3,density=0.2,layers=2"
    before, after, outcome = forgotten(runs[personalization], tmp_path / "run", method)
    chosen = outcome.notes[0].removeprefix("the adapter is on ").split(", ")
    assert len(chosen) == 2
    with deep_again(runs[personalization]) as federation:
        seed = context_on(federation, TARGET).generator("adapter").initial_seed()
    kind = AdapterKind("sparse", density=0.2, seed=seed)
    for name, tensor in before.items():
        changed = set((after[name] != tensor).flatten().nonzero().flatten().tolist())
        allowed = set(mask_positions(kind, name, tensor).tolist()) if name in chosen else set()
        assert changed <= allowed
    assert any(not torch.equal(after[name], before[name]) for name in chosen)


def test_only_values_are_uploaded_in_rounds(runs, tmp_path):
    method = "fused:rounds=5,density=0.25,layers=1,cli=remaining"
    before, _, outcome = forgotten(runs["fedper"], tmp_path / "run", method)
    name = outcome.notes[0].removeprefix("the adapter is on ")
    critical = 3 * sum(t.numel() * t.element_size() for t in before.values())
    values = max(1, round(0.25 * before[name].numel()))
    assert outcome.bytes_uploaded == critical + 5 * 3 * values * 4
    assert outcome.rounds == 6


def test_more_layers_than_there_are_is_all_of_them(runs, tmp_path):
    _, _, outcome = forgotten(runs["fedper"], tmp_path / "run", "fused:rounds=1,layers=99")
    assert outcome.notes[0].count("weight") == 3


def test_the_target_is_spared_by_the_strict_variant_alone(runs, tmp_path):
    _, _, outcome = forgotten(
        runs["fedper"], tmp_path / "run", "fused:rounds=1,cli=remaining", away=[TARGET]
    )
    assert outcome.rounds == 2
    with pytest.raises(Exception, match="'fused' needs c1"):
        forgotten(runs["fedper"], tmp_path / "two", "fused:rounds=1", away=[TARGET])


@pytest.mark.parametrize("wrong", ["density=0", "density=2", "adapter=dense", "cli=x", "lr=nan"])
def test_options_that_make_no_sense_are_refused(wrong, runs, tmp_path):
    with pytest.raises(Exception, match="refused"):
        forgotten(runs["fedper"], tmp_path / "run", f"fused:{wrong}")


@pytest.mark.parametrize("adapter", ["sparse", "lora"])
def test_a_real_run_keeps_its_accuracy(adapter, tmp_path):
    settings = {"data": "digits", "model": "cnn:width=4", "clients": 3, "engine": "inline"}
    with Federation.create(
        tmp_path / "run", personalization="fedbn", local_epochs=1, **settings
    ) as federation:
        federation.train(6)
        target = federation.clients[0]
        outcome = federation.forget(target, method=f"fused:rounds=2,adapter={adapter}")
    for client, accuracy in outcome.after.items():
        assert accuracy > outcome.before[client] - 0.05
