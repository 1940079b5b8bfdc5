"""Personal low-rank adapters: what they compute, what they leave alone, how they are forgotten."""

import pytest
import torch
from torch import nn

from helpers.forgetting_kill import copied
from helpers.toys import QUICK, WithNorm, client_data
from pfedul import Federation
from pfedul.base.tensorfile import read_file
from pfedul.errors import PfedulError
from pfedul.personalization.lora import LoRAOptions, add_adapters
from pfedul.split import head_of, split_adapters, split_head

ADAPTERS = {"body.0.lora_A", "body.0.lora_B", "head.lora_A", "head.lora_B"}
TARGET = "c1"
SETTINGS = {**QUICK, "lr": 0.05, "rounds": 2, "random_split": True}


class PeftLinear(nn.Module):
    """A linear layer as `peft` wraps it, by the names of its tensors."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.base_layer = nn.Linear(inputs, outputs).requires_grad_(False)
        self.lora_A = nn.ModuleDict({"default": nn.Linear(inputs, 2, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(2, outputs, bias=False)})
        nn.init.zeros_(self.lora_B["default"].weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base_layer(x) + self.lora_B["default"](self.lora_A["default"](x))


def wrapped() -> nn.Module:
    return nn.Sequential(PeftLinear(4, 8), nn.ReLU(), PeftLinear(8, 3))


def by_peft() -> nn.Module:
    peft = pytest.importorskip("peft")
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    return peft.get_peft_model(model, peft.LoraConfig(target_modules=["0", "2"], r=2))


def train(run, personalization, model=WithNorm, **settings):
    chosen = {**SETTINGS, "personalization": personalization, **settings}
    with Federation.create(run, data=client_data(), model=model, **chosen) as federation:
        federation.train()
    return run


def opened(run, model=WithNorm):
    return Federation.open(run, data=client_data(), model=model)


@pytest.fixture(scope="module")
def shared_base(tmp_path_factory):
    return train(tmp_path_factory.mktemp("lora") / "run", "lora:rank=2")


@pytest.fixture(scope="module")
def frozen_base(tmp_path_factory):
    return train(tmp_path_factory.mktemp("lora") / "run", "lora:rank=2,frozen=true")


def test_a_layer_adds_the_product_of_its_factors():
    layer = nn.Linear(3, 2, bias=False)
    add_adapters(LoRAOptions(rank=1, scale=3.0), nn.Sequential(layer))
    x = torch.tensor([[1.0, 2.0, 4.0]])
    with torch.no_grad():
        assert torch.equal(layer(x), x @ layer.weight.T)
        layer.lora_A.copy_(torch.tensor([[1.0, 0.0, 0.5]]))
        layer.lora_B.copy_(torch.tensor([[2.0], [-1.0]]))
        added = layer(x) - x @ layer.weight.T
    torch.testing.assert_close(added, torch.tensor([[3 * 2 * 3.0, 3 * -1 * 3.0]]))


def test_attention_is_left_alone_and_evaluation_does_not_pass_the_adapters_by():
    model = nn.TransformerEncoderLayer(4, 2, dim_feedforward=6, dropout=0.0, batch_first=True)
    add_adapters(LoRAOptions(rank=2), model)
    assert {name.split(".")[0] for name in split_adapters(model).personal} == {"linear1", "linear2"}
    nn.init.ones_(model.linear1.lora_B)
    x = torch.randn(2, 3, 4)
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(x), model.train()(x))


def test_the_head_of_an_adapted_model_is_the_layer_with_its_adapter():
    assert head_of(wrapped()) == "2"
    assert all(name.startswith("2.") for name in split_head(wrapped()).personal)


def test_a_model_with_adapters_gets_no_more():
    model = wrapped()
    before = [*model.state_dict()]
    add_adapters(LoRAOptions(), model)
    assert [*model.state_dict()] == before


def test_a_model_without_linear_layers_is_refused():
    with pytest.raises(PfedulError, match="this model has none: use a model with linear layers"):
        add_adapters(LoRAOptions(), nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten()))


def test_the_adapters_are_personal_and_the_base_is_shared(shared_base):
    initial = read_file(shared_base / "init.safetensors")
    shared = read_file(shared_base / "shared.safetensors")
    one, two = (read_file(shared_base / f"clients/{c}/personal.safetensors") for c in ("c0", "c1"))
    assert set(one) == ADAPTERS
    assert not ADAPTERS & set(shared)
    assert not torch.equal(one["head.lora_B"], two["head.lora_B"])
    assert not torch.equal(shared["body.0.weight"], initial["body.0.weight"])


@pytest.fixture(scope="module")
def forgotten(shared_base, tmp_path_factory):
    """The run after the default removal, with the outcome."""
    run = copied(shared_base, tmp_path_factory.mktemp("forgotten") / "run")
    with opened(run) as federation:
        return run, federation.forget(TARGET)


def test_forgetting_erases_the_adapters_of_the_target_alone(shared_base, forgotten):
    run, outcome = forgotten
    own = read_file(shared_base / f"clients/{TARGET}/personal.safetensors")
    assert not (run / "clients" / TARGET).exists()
    everything = b"".join(file.read_bytes() for file in run.rglob("*") if file.is_file())
    assert not any(tensor.numpy().tobytes() in everything for tensor in own.values())
    assert sorted(outcome.after) == ["c0", "c2"]


def test_forgetting_corrects_the_base_and_refits_the_other_adapters(shared_base, forgotten):
    run, _ = forgotten
    for file in ("shared.safetensors", "clients/c0/personal.safetensors"):
        before, after = read_file(shared_base / file), read_file(run / file)
        assert before.keys() == after.keys()
        assert not any(torch.equal(before[name], after[name]) for name in ADAPTERS & before.keys())
        assert any(not torch.equal(before[name], after[name]) for name in before)


def test_what_was_forgotten_is_measured(forgotten):
    _, outcome = forgotten
    assert outcome.audit is not None
    assert "verdict" in outcome.audit


def test_a_rehearsal_with_oracles(shared_base, tmp_path):
    with opened(copied(shared_base, tmp_path / "run")) as federation:
        audit = federation.rehearse(TARGET, level="quick")
    surfaces = {test["surface"] for test in audit.evidence["tests"]}
    assert {"remaining", "stale", "probe"} <= surfaces


def test_training_goes_on(forgotten, tmp_path):
    with opened(copied(forgotten[0], tmp_path / "run")) as federation:
        federation.train(3)
        assert federation.clients == ["c0", "c2"]


def test_a_frozen_base_stays_as_it_is_with_its_statistics(frozen_base):
    initial = read_file(frozen_base / "init.safetensors")
    shared = read_file(frozen_base / "shared.safetensors")
    assert all(torch.equal(initial[name], shared[name]) for name in shared)


def test_on_a_frozen_base_nothing_of_the_target_is_left_and_the_others_lose_nothing(
    frozen_base, tmp_path
):
    run = copied(frozen_base, tmp_path / "run")
    with opened(run) as federation:
        outcome = federation.forget(TARGET)
    assert not (run / "clients" / TARGET).exists()
    assert outcome.before == outcome.after
    for client in ("c0", "c2"):
        file = f"clients/{client}/personal.safetensors"
        before, after = read_file(frozen_base / file), read_file(run / file)
        assert all(torch.equal(before[name], after[name]) for name in before)


def test_the_plan_says_that_a_frozen_base_stays(frozen_base):
    with opened(frozen_base) as federation:
        assert not any("repair round" in note for note in federation.plan(TARGET).notes)
        with pytest.raises(PfedulError, match="no shared parameter has changed"):
            federation.plan(TARGET, correction="paper")


@pytest.mark.parametrize("model", [wrapped, by_peft])
def test_models_with_adapters_of_their_own(model, tmp_path):
    if model is by_peft:
        pytest.importorskip("peft")
    run = train(tmp_path / "run", "lora", model)
    with opened(run, model) as federation:
        personal = federation.personal("c0")
        assert len(personal) == 4
        assert all("lora_" in name for name in personal)
        initial = federation.store.read("init.safetensors")
        assert all(torch.equal(initial[name], federation.shared[name]) for name in initial)
        federation.forget(TARGET)
    assert not (run / "clients" / TARGET).exists()


@pytest.mark.parametrize("model", [wrapped, by_peft])
def test_with_another_personalisation_the_adapters_are_shared(model, tmp_path):
    """Fresh adapters give nearly nothing, which is no unit to measure distances in at repair."""
    run = train(tmp_path / "run", "fedavg", model, rounds=1, lr=0.01)
    with opened(run, model) as federation:
        outcome = federation.forget(TARGET)
    before = read_file(run / "init.safetensors")
    changed = {n for n, tensor in federation.shared.items() if not torch.equal(tensor, before[n])}
    assert changed == {name for name in before if "lora_" in name}
    assert outcome.shared_sha256_before != outcome.shared_sha256_after
