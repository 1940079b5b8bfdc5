"""Answers of models: the short way over the heads gives what the plain way gives."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from helpers.toys import WithNorm
from pfedul import Settings
from pfedul.audit.ask.logits import head_features, logits_from_heads, logits_of
from pfedul.base.tensors import Tensors, load_tensors, read_tensors
from pfedul.base.threads import one_thread
from pfedul.data.own import own_clients
from pfedul.data.samples import DatasetSamples, TensorSamples
from pfedul.personalization import PERSONALIZATIONS
from pfedul.personalization.local import FORWARD_BATCH
from pfedul.protocol import Workbench
from pfedul.run.assembly import assemble

NAMES = [entry.name for entry in PERSONALIZATIONS]


def images(count: int = FORWARD_BATCH + 9) -> TensorSamples:
    """More than a batch, and the last batch a small one."""
    x = torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    return TensorSamples(x, torch.arange(count) % 3)


class GoesOnAfterItsHead(WithNorm):
    """A temperature behind the head."""

    def __init__(self) -> None:
        super().__init__(inputs=64)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(1)) / 2


MODELS = {"cnn": "cnn:width=4", "resnet": "resnet18:width=4", "own": GoesOnAfterItsHead}


def workbench(personalization: str, model: str) -> Workbench:
    chosen = MODELS[model]
    name, own = (chosen, None) if isinstance(chosen, str) else ("own", chosen)
    part = images(12)
    data = own_clients({"a": ((part.x, part.y), (part.x, part.y))})
    return assemble(Settings(data="own", model=name, personalization=personalization), data, own)


def drawn(model: nn.Module, names: tuple[str, ...], seed: int) -> Tensors:
    """Tensors near those of the model, variances above 0."""
    torch.manual_seed(seed)
    return {
        name: tensor * (1 + torch.rand_like(tensor)) if tensor.is_floating_point() else tensor
        for name, tensor in read_tensors(model, names).items()
    }


def parts_of(bench: Workbench) -> tuple[Tensors, dict[str, Tensors]]:
    model = bench.build_model()
    personals = {name: drawn(model, bench.split.personal, i) for i, name in enumerate("abc", 1)}
    return drawn(model, bench.split.shared, 0), personals


def plain(bench: Workbench, shared: Tensors, personal: Tensors, data: TensorSamples) -> Tensor:
    model = bench.build_model().eval()
    load_tensors(model, shared, personal)
    with torch.no_grad(), one_thread():
        return torch.cat([model(x) for x in data.x.split(FORWARD_BATCH)])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", NAMES)
def test_logits_from_heads_are_those_of_the_plain_way(name, model):
    bench, data = workbench(name, model), images()
    shared, personals = parts_of(bench)
    found = logits_from_heads(bench, shared, personals, data)
    assert list(found) == ["a", "b", "c"]
    for client, logits in found.items():
        wanted = plain(bench, shared, personals[client], data).numpy()
        assert logits.dtype == np.float64
        assert np.array_equal(logits, wanted)
    same = name in {"fedavg", "lora"}  # adapters begin with no effect
    assert np.array_equal(found["a"], found["b"]) == same


@pytest.mark.parametrize(
    ("name", "model", "passes"),
    [
        ("fedper", "resnet", 1),
        ("fedrep", "cnn", 1),
        ("fedper", "own", 4),
        ("fedbn", "cnn", 3),
        ("ditto", "cnn", 3),
        ("fedavg", "cnn", 1),
    ],
)
def test_the_body_is_passed_once_where_only_heads_differ(name, model, passes):
    """That a model goes on after its head is seen in one pass more."""
    bench, data, calls = workbench(name, model), images(5), []
    watched = bench.build_model()
    watched.register_forward_hook(lambda *_: calls.append(1))
    bench = replace(bench, build_model=lambda: watched)
    logits_from_heads(bench, *parts_of(bench), data)
    assert len(calls) == passes


def test_a_client_without_personal_tensors_has_a_fresh_head_and_not_that_of_the_one_before():
    bench, data = workbench("fedper", "cnn"), images(6)
    shared, personals = parts_of(bench)
    found = logits_from_heads(bench, shared, {"a": personals["a"], "new": {}}, data)
    np.testing.assert_allclose(found["new"], plain(bench, shared, {}, data).numpy(), rtol=1e-5)


def test_a_model_answers_in_eval_mode_with_one_thread():
    threads = []
    model = WithNorm(inputs=4).train()
    model.register_forward_hook(
        lambda *_: threads.append((torch.get_num_threads(), model.training))
    )
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    logits = logits_of(model, TensorSamples(torch.rand(7, 4), torch.zeros(7, dtype=torch.int64)))
    assert logits.shape == (7, 3)
    assert threads == [(1, False)]
    assert all(torch.equal(before[name], now) for name, now in model.state_dict().items())


class Noisy:
    """A map-style dataset that reads otherwise each time."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.rand(1, 8, 8), index


def test_a_dataset_gives_every_model_the_same_samples_and_leaves_the_callers_stream_alone():
    bench, data = workbench("fedper", "cnn"), DatasetSamples(Noisy())
    shared, personals = parts_of(bench)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    found = logits_from_heads(bench, shared, {"x": personals["a"], "y": personals["a"]}, data)
    assert torch.equal(torch.rand(1), expected)
    assert np.array_equal(found["x"], found["y"])
    assert head_features(bench, bench.build_model(), data) is None


@pytest.mark.parametrize("name", NAMES)
def test_the_head_makes_the_logits_of_its_features(name):
    bench, data = workbench(name, "cnn"), images()
    model = bench.build_model()
    features = head_features(bench, model, data)
    assert features is not None
    assert features.x.shape == (len(data), 64)
    assert torch.equal(features.y, data.y)
    np.testing.assert_allclose(logits_of(model.head, features), logits_of(model, data), rtol=1e-5)
