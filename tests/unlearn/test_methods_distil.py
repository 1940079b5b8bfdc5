"""ZeroFU and Mimir on small runs."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from helpers.at_request import context_on, replace_work
from helpers.forgetting_kill import TARGET, Deep, copied, deep, deep_again, trained
from helpers.toys import client_data, tensor_digests, uneven_data
from pfedul import Federation
from pfedul.base import registry
from pfedul.base.tensorfile import read_file
from pfedul.errors import NothingChanged
from pfedul.personalization import PERSONALIZATIONS
from pfedul.unlearn.methods import METHODS
from pfedul.unlearn.methods.distillation.mimir import MimirOptions, fitted_prompts
from pfedul.unlearn.methods.distillation.run import label_gates

QUICK = "iterations=6,batch=16"
TRAINING = {"rounds": 8, "local_epochs": 4, "lr": 0.02}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("distil")
    names = ["fedavg", "fedper", "ditto", "fedbn"]
    return {
        name: trained(folder / name, personalization=name, data=uneven(), **TRAINING)
        for name in names
    }


def uneven():
    return uneven_data(4, train=60, test=30)


def forgotten(run, into, method, targets=(), **options):
    """Shared tensors before and after, and the outcome."""
    copy = copied(run, into)
    with deep_again(copy, data=uneven(), engine=options.pop("engine", "inline")) as federation:
        outcome = federation.forget(*(targets or (TARGET,)), method=method, **options)
    return read_file(run / "shared.safetensors"), read_file(copy / "shared.safetensors"), outcome


def distance(before, after) -> float:
    return max(float((before[n].double() - after[n].double()).abs().max()) for n in before)


@pytest.mark.parametrize("mode", ["server", "federated"])
@pytest.mark.parametrize("method", ["zerofu", "mimir"])
def test_without_the_loss_of_forgetting_a_warm_student_stays_what_it_was(
    method, mode, runs, tmp_path
):
    spec = f"{method}:iterations=16,forget=0,mode={mode}"
    before, after, _ = forgotten(runs["fedper"], tmp_path / "run", spec, allow_unchanged=True)
    assert distance(before, after) < 2e-6
    _, moved, _ = forgotten(runs["fedper"], tmp_path / "two", f"{method}:iterations=16,mode={mode}")
    assert distance(before, moved) > 2e-5
    head = read_file(runs["fedper"] / "clients" / "c0" / "personal.safetensors")
    inputs = torch.randn(50, 4, generator=torch.Generator().manual_seed(1))
    assert divergence(before, after, head, inputs) < 1e-6


def divergence(before, after, head, x) -> float:
    """KL of a client's outputs after a removal to those before."""
    outputs = []
    for shared in (before, after):
        model = Deep().eval()
        model.load_state_dict({**shared, **head})
        with torch.no_grad():
            outputs.append(F.log_softmax(model(x), 1))
    return float(F.kl_div(outputs[1], outputs[0], reduction="batchmean", log_target=True))


def test_a_random_student_without_distillation_through_the_heads_collapses(tmp_path):
    """Why ours starts warm: the frozen heads guess on random features, a third is right."""
    data = client_data(4, train=60, test=30)
    run = trained(tmp_path / "run", data=data, **TRAINING)
    ends = []
    for number, spec in enumerate(["", ",student_init=random,beta=0,gamma=0"]):
        with deep_again(copied(run, tmp_path / str(number)), data=data) as federation:
            ends.append(federation.forget(TARGET, method=f"zerofu:iterations=16{spec}"))
    warm, cold = ends
    before, kept, lost = (
        np.mean(list(scores.values())) for scores in (warm.before, warm.after, cold.after)
    )
    assert before > 0.9
    assert kept > before - 0.05
    assert lost < 0.5


@pytest.mark.parametrize("name", ["zerofu", "mimir"])
def test_the_two_signs_go_different_ways(name, runs, tmp_path):
    ends = [
        forgotten(runs["fedper"], tmp_path / sign, f"{name}:{QUICK},lf_sign={sign},beta=0")
        for sign in ("pull", "push")
    ]
    moves = [
        torch.cat([(after[n] - before[n]).flatten() for n in before if "weight" in n])
        for before, after, _ in ends
    ]
    assert float(F.cosine_similarity(*moves, dim=0)) < -0.5


@pytest.mark.parametrize("student_init", ["warm", "random"])
@pytest.mark.parametrize("personalization", ["fedavg", "fedper", "ditto"])
def test_synthetic_inputs_move_no_statistics(personalization, student_init, runs, tmp_path):
    method = f"zerofu:{QUICK},student_init={student_init}"
    run = runs[personalization]
    before, after, _ = forgotten(run, tmp_path / "run", method)
    start = before if student_init == "warm" else read_file(run / "init.safetensors")
    for name in ("norm.running_mean", "norm.running_var"):
        assert torch.equal(after[name], start[name])


def test_gates_are_those_of_own_labels_and_own_head(runs):
    with deep_again(runs["fedper"], data=uneven()) as federation:
        gates = label_gates(context_on(federation, TARGET))
    data = uneven()
    for client in ("c0", TARGET):
        labels = data[client][0][1].numpy()
        shares = np.bincount(labels, minlength=3) / len(labels)
        head = read_file(runs["fedper"] / "clients" / client / "personal.safetensors")
        mean = shares @ head["head.weight"].double().numpy()
        assert gates[client].numpy() == pytest.approx(1 + mean / np.abs(mean).max(), abs=1e-5)


@pytest.mark.parametrize("personalization", ["fedavg", "fedper"])
def test_where_features_are_nobodys_own_a_note_says_that_nothing_was_forgotten(
    personalization, runs, tmp_path
):
    spec = f"zerofu:{QUICK},condition=none"
    run = runs[personalization]
    before, after, outcome = forgotten(run, tmp_path / "run", spec, allow_unchanged=True)
    assert distance(before, after) < 1e-5
    assert any("nothing to forget by" in note for note in outcome.notes)


@pytest.mark.parametrize("name", ["fedper", "fedbn"])
def test_what_is_personal_decides_on_the_note_not_the_name_of_the_personalisation(
    name, tmp_path, monkeypatch
):
    monkeypatch.setattr(registry, "_REGISTERED", {})
    PERSONALIZATIONS.register(replace(PERSONALIZATIONS[name], name="mine"))
    with deep(tmp_path / "run", rounds=1, personalization="mine", data=uneven()) as federation:
        federation.train()
        outcome = federation.forget(TARGET, method=f"zerofu:{QUICK},condition=none")
    assert any("nothing to forget by" in note for note in outcome.notes) == (name == "fedper")


def test_equal_label_distributions_tell_nobody_apart(tmp_path):
    with deep(tmp_path / "run", rounds=2) as federation:
        federation.train()
        before = dict(federation.shared)
        outcome = federation.forget(TARGET, method=f"zerofu:{QUICK}", allow_unchanged=True)
        assert distance(before, federation.shared) < 1e-5
    assert any("nothing to forget by" in note for note in outcome.notes)


def test_what_changed_nothing_is_not_worked_out_again_once_that_is_allowed(tmp_path, monkeypatch):
    asked = []

    def watch(distil):
        return lambda job, how, extra: asked.append(job.client) or distil(job, how, extra)

    replace_work(monkeypatch, "distil", watch)
    options = {"method": f"zerofu:{QUICK},mode=federated,rounds=1"}
    with deep(tmp_path / "run", rounds=2) as federation:
        federation.train()
        with pytest.raises(NothingChanged, match="--allow-unchanged"):
            federation.forget(TARGET, **options)
        assert len(asked) == 3
        outcome = federation.forget(TARGET, **options, allow_unchanged=True)
    assert len(asked) == 3
    assert outcome.rounds == 1
    assert not any("begun with" in note for note in outcome.notes)


@pytest.mark.parametrize("personalization", ["ditto", "fedbn"])
def test_where_features_are_personal_no_condition_is_needed(personalization, runs, tmp_path):
    method = f"zerofu:{QUICK},condition=none"
    before, after, outcome = forgotten(runs[personalization], tmp_path / "run", method)
    assert distance(before, after) > 1e-5
    assert not outcome.notes


@pytest.mark.parametrize(
    ("method", "personalization"), [("zerofu", "fedavg"), ("zerofu", "ditto"), ("mimir", "fedbn")]
)
def test_rounds_of_clients_are_counted_and_the_same_on_every_engine(
    method, personalization, runs, tmp_path
):
    spec = f"{method}:{QUICK},mode=federated,rounds=2"
    ends = []
    for engine in ("inline", "processes"):
        copy = tmp_path / engine
        _, _, outcome = forgotten(runs[personalization], copy, spec, engine=engine)
        ends.append(tensor_digests(copy))
        assert outcome.rounds == 2 + (method == "mimir")
        assert outcome.bytes_uploaded > 0
    assert ends[0] == ends[1]


def test_every_round_is_told_its_number_and_draws_anew(runs, tmp_path, monkeypatch):
    seen = []

    def watch(distil):
        def watched(job, how, extra):
            seen.append(how["round"])
            return distil(job, how, extra)

        return watched

    replace_work(monkeypatch, "distil", watch)
    forgotten(runs["fedper"], tmp_path / "run", f"zerofu:{QUICK},mode=federated,rounds=2")
    assert seen == [1, 1, 1, 2, 2, 2]


def test_what_tells_the_two_methods_apart_is_their_default():
    """Mimir's generator also looks for inputs on which outputs differ, ZeroFU's does not."""
    assert METHODS.parse("zerofu")[1].gen_obj == "lf"
    assert METHODS.parse("mimir")[1].gen_obj == "lf+kd"


def test_several_targets_leave_at_once(runs, tmp_path):
    for method in ("zerofu", "mimir"):
        for mode in ("server", "federated"):
            spec = f"{method}:{QUICK},mode={mode},rounds=1"
            into = tmp_path / f"{method}-{mode}"
            before, after, outcome = forgotten(runs["fedbn"], into, spec, ["c1", "c3"])
            assert set(outcome.after) == {"c0", "c2"}
            assert distance(before, after) > 1e-6


@pytest.mark.parametrize("method", ["zerofu", "mimir"])
def test_the_target_can_be_spared_only_without_a_condition(method, runs, tmp_path):
    """Prompts are fitted to its samples, and gates are made of its labels."""
    plain = f"{method}:{QUICK},condition=none"
    _, _, outcome = forgotten(runs["fedbn"], tmp_path / "run", plain, away=[TARGET])
    assert outcome.rounds == 0
    with pytest.raises(Exception, match=f"'{method}' needs c1"):
        forgotten(runs["fedbn"], tmp_path / "two", f"{method}:{QUICK}", away=[TARGET])


def first_step(tensors, part, lr: float) -> torch.Tensor:
    """The prompt after one step over all samples of a client."""
    model = Deep().eval()
    model.load_state_dict(tensors)
    prompt = torch.ones(6, requires_grad=True)
    features = model.three(model.two(model.norm(model.one(part[0])).relu()).relu()).relu()
    changed = prompt * features
    changed = changed * features.norm(dim=1, keepdim=True) / changed.norm(dim=1, keepdim=True)
    (slope,) = torch.autograd.grad(F.cross_entropy(model.head(changed), part[1]), prompt)
    return 1 - lr * slope


def test_in_ditto_targets_fit_their_prompt_on_their_own_model_and_the_others_on_the_shared_one(
    tmp_path,
):
    """T_F is the target's local model, T_R the shared one: each prompt is for its teacher."""
    data = uneven()
    with deep(
        tmp_path / "run", personalization="ditto", data=data, batch_size=99, lr=0.2, rounds=2
    ) as federation:
        federation.train()
        prompts = fitted_prompts(context_on(federation, TARGET), MimirOptions(prompt_epochs=1))
        shared = dict(federation.shared)
    whole = read_file(tmp_path / "run" / "clients" / TARGET / "personal.safetensors")
    own = first_step(whole, data[TARGET][0], 0.2)
    assert torch.allclose(prompts[TARGET], own, atol=1e-5)
    assert not torch.allclose(first_step(shared, data[TARGET][0], 0.2), own, atol=1e-4)
    for client in ("c0", "c2", "c3"):
        expected = first_step(shared, data[client][0], 0.2)
        assert torch.allclose(prompts[client], expected, atol=1e-5)


@pytest.mark.parametrize(
    "wrong",
    ["lf_sign=up", "condition=prompt", "batch=1", "tau=0", "lr=nan", "beta=-1", "mode=cloud"],
)
def test_options_that_make_no_sense_are_refused(wrong, runs, tmp_path):
    with pytest.raises(Exception, match="refused"):
        forgotten(runs["fedper"], tmp_path / "run", f"zerofu:{wrong}")


def test_whole_numbers_cannot_be_drawn(tmp_path):
    data = {f"c{i}": ((torch.arange(12) % 5, torch.arange(12) % 2),) * 2 for i in range(3)}

    class Tokens(torch.nn.Module):
        head_name = "head"

        def __init__(self):
            super().__init__()
            self.body, self.head = torch.nn.Embedding(5, 4), torch.nn.Linear(4, 2)

        def forward(self, x):
            return self.head(self.body(x))

    with Federation.create(
        tmp_path / "run", data=data, model=Tokens, personalization="fedper", engine="inline"
    ) as federation:
        federation.train(1)
        with pytest.raises(Exception, match="whole numbers"):
            federation.forget("c1", method="zerofu")


def test_images_through_convolutions_on_a_real_run(tmp_path):
    settings = {"data": "digits", "model": "cnn:width=2", "clients": 3, "engine": "inline"}
    run = tmp_path / "run"
    with Federation.create(run, personalization="fedper", local_epochs=1, **settings) as federation:
        federation.train(4)
        before = dict(federation.shared)
        target = federation.clients[1]
        outcome = federation.forget(target, method="zerofu:iterations=5,batch=16")
        assert distance(before, federation.shared) > 1e-7
    for client, accuracy in outcome.after.items():
        assert accuracy > outcome.before[client] - 0.1
