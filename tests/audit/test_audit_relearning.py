"""Learning again: a model that knows its samples is back at once, a fresh one is not."""

from dataclasses import replace
from functools import cache

import torch
from torch import nn

from helpers.auditing import few_draws
from helpers.toys import WithNorm, client_data, samples
from pfedul import Settings
from pfedul.audit.ask.answers import ask, surfaces_of
from pfedul.audit.ask.samples import draw_samples
from pfedul.audit.evidence.relearning import (
    epochs_to_return,
    fresh_part,
    relearn_time,
    relearning_curve,
)
from pfedul.audit.state import State
from pfedul.base.tensors import Tensors, read_tensors
from pfedul.data.own import own_clients
from pfedul.data.samples import DatasetSamples
from pfedul.protocol import Workbench
from pfedul.run.assembly import assemble

DATA = samples(48)


class TwoLayers(nn.Sequential):
    """A linear body under a linear head."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(4, 4, bias=False), nn.Linear(4, 3, bias=False))


def workbench(model=TwoLayers, personalization: str = "fedper", **settings) -> Workbench:
    chosen = {"data": "own", "model": "own", "lr": 0.01, "batch_size": 8, **settings}
    return assemble(
        Settings(personalization=personalization, **chosen), own_clients(client_data()), model
    )


def tensors_of(bench: Workbench, model: nn.Module) -> Tensors:
    return read_tensors(model, (*bench.split.shared, *bench.split.personal))


@cache
def fitted() -> nn.Module:
    """Answers with the class whose centre is nearest, which no training is needed for."""
    model = TwoLayers()
    with torch.no_grad():
        model[0].weight.copy_(torch.eye(4))
        model[1].weight.copy_(torch.eye(3, 4))
    return model


def test_a_model_that_fits_is_back_before_the_first_epoch():
    bench = workbench()
    (before,) = relearning_curve(bench, tensors_of(bench, fitted()), DATA, 5, stop_at=0.9)
    logits = fitted()(DATA.x)
    assert before == float((logits.argmax(1) == DATA.y).float().mean())


def test_a_fresh_model_needs_more_epochs_than_one_that_fits():
    bench = workbench()
    curve = relearning_curve(bench, {}, DATA, 30, stop_at=0.9)
    assert len(curve) > 2
    assert curve[-1] >= 0.9 > max(curve[:-1])


def test_without_a_goal_every_epoch_is_measured():
    bench = workbench()
    start = tensors_of(bench, fitted())
    assert len(relearning_curve(bench, start, DATA, 4)) == 5
    assert len(relearning_curve(bench, start, DATA, 0)) == 1


class WithDropout(WithNorm):
    """Draws random numbers in training, and has running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.body.append(nn.Dropout(0.5))


def test_the_seed_decides_the_curve_and_neither_inputs_nor_the_callers_stream_are_touched():
    bench = workbench(WithDropout)
    start = tensors_of(bench, bench.build_model())
    kept = {name: tensor.clone() for name, tensor in start.items()}
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    noisy = samples(60, shift=0.5, seed=3)
    curves = [relearning_curve(replace(bench, seed=n), start, noisy, 6) for n in (1, 1, 2)]
    assert torch.equal(torch.rand(1), expected)
    assert curves[0] == curves[1] != curves[2]
    assert all(torch.equal(kept[name], given) for name, given in start.items())


class Noted:
    """A map-style dataset that notes what is read."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def __len__(self) -> int:
        return len(DATA)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        self.read.append(index)
        return DATA.x[index], int(DATA.y[index])


def test_the_shuffles_are_the_same_from_every_start():
    bench = workbench(WithDropout)
    noted = []
    for model in (WithDropout(), WithDropout()):
        noted.append(Noted())
        relearning_curve(bench, tensors_of(bench, model), DatasetSamples(noted[-1]), 2)
    assert noted[0].read == noted[1].read
    assert noted[0].read[48:96] != list(range(48))


def test_of_ditto_the_shared_model_learns_when_no_personal_tensors_are_given():
    bench = workbench(personalization="ditto")
    shared = read_tensors(fitted(), bench.split.shared)
    assert relearning_curve(bench, shared, DATA, 0)[0] > 0.9


def test_the_learning_rate_is_that_of_the_federation():
    bench = workbench()
    still = replace(bench, training=replace(bench.training, lr=1e-12))
    curve = relearning_curve(still, {}, DATA, 3)
    assert len(set(curve)) == 1


def test_epochs_are_counted_up_to_the_tolerance():
    assert epochs_to_return([0.7, 0.78], 0.8, tolerance=0.02) == 1
    assert epochs_to_return([0.9], 0.9) == 0
    assert epochs_to_return([0.1, 0.2], 0.9) is None


def test_in_the_picture_of_all_models_their_own_heads_play_no_part():
    bench = workbench(TwoLayers, "fedavg")
    own = tensors_of(bench, fitted())
    starts = {"own": own, "another": {**own, "1.weight": -own["1.weight"]}}
    target, *others = sorted(bench.data)
    data = {client: bench.data[client] for client in others}
    asked = draw_samples({target: bench.data[target]}, data, seed=0)
    state = State(own, {client: {} for client in others}, {target: {}})
    answers = ask(bench, asked, state, surfaces_of(bench, without=["probe"]))
    with few_draws():
        curves = relearn_time(bench, asked, starts, answers, lambda *_: None)["curves"]
    assert curves["own"] == curves["another"] != curves["fresh"]


def test_all_start_from_one_head_that_nobody_was_trained_with():
    for name, parts in (("fedper", {"head"}), ("fedavg", {"head"}), ("fedbn", {"body", "head"})):
        bench = workbench(WithNorm, name)
        part, initial = fresh_part(bench), bench.build_model().state_dict()
        assert {key.partition(".")[0] for key in part} == parts
        assert not torch.equal(part["head.weight"], initial["head.weight"])
        assert all(torch.equal(part[key], fresh_part(bench)[key]) for key in part)
