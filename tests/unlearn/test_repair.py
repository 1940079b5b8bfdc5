"""Repair rounds: by hand, what they learn from, and that they belong to the one commit."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from helpers import linear
from helpers.crafted import play_crafted
from helpers.forgetting_kill import TARGET, copied, deep, deep_again, trained
from helpers.toys import norm_job, one_sample_job, tensor_digests
from pfedul import PfedulError
from pfedul.base.tensors import load_tensors
from pfedul.data.samples import TensorSamples
from pfedul.personalization import PERSONALIZATIONS
from pfedul.status import read_status
from pfedul.store.requests import read_request, request_entry
from pfedul.unlearn.distil import LAYERS, PULL, Watched, distance, distil_shared, pull
from pfedul.unlearn.options import ForgetOptions
from pfedul.unlearn.outcome import read_outcome
from pfedul.unlearn.training import SharedTraining, train_shared

EXCLUDE = {"correction": "exclude"}
KINDS = ["ordinary", "distil"]
NAMES = ["fedavg", "fedper", "fedrep", "ditto", "fedbn"]


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("repair") / "run", record="contributions+fisher")


@pytest.fixture
def run(start, tmp_path):
    return copied(start, tmp_path / "run")


# By hand


def test_ordinary_rounds_by_hand(tmp_path):
    """One batch a client: the rates of three rounds are those of a cosine at 0, 1/3 and 2/3."""
    others = [client for client in linear.SIZES if client != linear.TARGET]
    sizes = [linear.SIZES[client] for client in others]
    with linear.federation(tmp_path / "run") as federation:
        federation.train()
        w = linear.weight(federation)
        for number in range(3):
            rate = linear.RATE * (1 + math.cos(math.pi * number / 3)) / 2
            steps = [linear.cross_entropy_gradient(w, client) for client in others]
            w = w - rate * np.average(steps, axis=0, weights=sizes)
        federation.forget(linear.TARGET, method="none", repair_rounds=3)
        linear.assert_close(federation.shared[linear.NAME], w)


def two_samples(name):
    job = one_sample_job(PERSONALIZATIONS[name])
    return replace(job, samples=TensorSamples(torch.tensor([[1.0], [3.0]]), torch.tensor([0, 0])))


def plain(**options):
    return vars(SharedTraining(**options))


def test_distillation_by_hand():
    """Features, and the one layer before the head, are w x.

    Their distance has the slope 2 (w - v) mean(x^2) / (v^2 var(x)).
    """
    w, v, head, x = 1.0, 1.5, 0.75, np.array([1.0, 3.0])
    job = two_samples("fedper")
    wrong = 1 / (1 + np.exp(head * w * x))
    apart = 2 * (w - v) * np.mean(x**2) / (v**2 * np.var(x))
    slope = -np.mean(wrong * head * x) + (PULL + LAYERS) * apart
    found = distil_shared(job, plain(), {"body.weight": torch.tensor([[v]])}).tensors
    assert float(found["body.weight"]) == pytest.approx(w - 0.1 * slope, abs=1e-6)


def test_a_teacher_that_is_the_student_adds_nothing():
    job = two_samples("fedper")
    found = distil_shared(job, plain(), dict(job.shared)).tensors["body.weight"]
    wrong = 1 / (1 + np.exp(0.75 * np.array([1.0, 3.0])))
    assert float(found) == pytest.approx(1 + 0.1 * np.mean(wrong * 0.75 * np.array([1.0, 3.0])))


def test_features_that_do_not_vary_have_no_unit():
    assert distance(torch.ones(3), torch.zeros(3)) == 1.0


def test_without_a_head_logits_are_compared():
    model, x = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.randn(4, 2)
    headless = Watched(model, None)
    assert headless(x) is headless.features
    headed = Watched(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 3)), "1")
    headed(x)
    assert headed.features.shape == (4, 2)


class Twice(nn.Module):
    """A layer of two modules, a layer that is called twice, and a head of two."""

    head_name = "head"

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.norm = nn.LayerNorm(2)
        self.again = nn.Linear(2, 2)
        self.head = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3))

    def forward(self, x):
        return self.head(self.again(self.again(self.norm(self.first(x)))))


def test_a_layer_is_seen_as_it_leaves_the_module_that_was_called_last():
    model, x = Twice(), torch.randn(4, 2)
    watched = Watched(model, "head")
    watched(x)
    normalised = model.norm(model.first(x))
    twice = model.again(model.again(normalised))
    assert watched.layers.keys() == {"first", "again"}  # and nothing of the head
    assert torch.equal(watched.layers["first"], normalised)
    assert torch.equal(watched.layers["again"], twice)
    assert torch.equal(watched.features, twice)


def test_the_pull_weighs_features_and_the_mean_of_the_layers():
    now, old = Watched(Twice(), "head"), Watched(Twice(), "head")
    x = torch.randn(4, 2)
    now(x), old(x)
    apart = [distance(now.layers[name], old.layers[name]) for name in ("first", "again")]
    assert torch.allclose(pull(now, old), PULL * apart[1] + LAYERS * sum(apart) / 2)


def test_a_model_that_is_all_head_is_held_by_what_its_head_is_given():
    now, old = (Watched(nn.Sequential(nn.Linear(2, 2)), "0") for _ in range(2))
    x = torch.randn(4, 2)
    now(x), old(x)
    assert not now.layers
    assert float(pull(now, old)) == 0


@pytest.mark.parametrize("name", NAMES)
def test_the_model_of_a_client_is_left_without_hooks_and_its_personal_part_as_it_was(name):
    job = norm_job(name)
    before = {key: tensor.clone() for key, tensor in job.personal.items()}
    distil_shared(job, plain(), dict(job.shared))
    modules = list(job.model.modules())
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in modules)
    assert all(torch.equal(before[key], job.personal[key]) for key in before)
    beside = {key: t for key, t in job.model.state_dict().items() if key not in job.split.shared}
    assert all(torch.equal(tensor, before[key]) for key, tensor in beside.items())


@pytest.mark.parametrize("name", NAMES)
def test_a_teacher_holds_the_features_near_its_own(name):
    """Students that start elsewhere, with and without a teacher."""
    job = norm_job(name, epochs=1, lr=0.005)
    teacher = dict(job.shared)
    shared = {k: t * 1.5 if t.is_floating_point() else t for k, t in teacher.items()}
    job = replace(job, shared=shared)
    taught = distil_shared(job, plain(epochs=10), teacher).tensors
    alone = distil_shared(job, plain(epochs=10), shared).tensors
    assert features_apart(job, taught, teacher) < features_apart(job, alone, teacher) / 2


def features_apart(job, one, two):
    found = []
    for shared in (one, two):
        load_tensors(job.model, shared, job.split.beside_shared(job.personal))
        watched = Watched(job.model.eval(), "head")
        watched(job.samples.x)
        found.append(watched.features.detach())
        watched.close()
    return float(distance(*found))


@pytest.mark.parametrize("by_batch", [True, False])
def test_by_batches_the_statistics_of_personal_normalisation_do_not_matter(by_batch):
    found = []
    for scale in (1.0, 1e3):
        job = norm_job("fedbn")
        job.personal["body.1.running_var"] = job.personal["body.1.running_var"] * scale
        found.append(train_shared(job, plain(by_batch=by_batch), {}).tensors["body.0.weight"])
        for name in ("body.1.weight", "body.1.bias"):
            assert torch.equal(job.model.state_dict()[name], job.personal[name])
    assert torch.equal(*found) == by_batch


# Within a removal


@pytest.mark.parametrize("kind", KINDS)
def test_rounds_are_counted_and_are_a_part_of_the_one_commit(kind, run):
    with deep_again(run) as federation:
        ledger = federation.store.ledger
        before = federation.rounds, ledger.value("SELECT COUNT(*) FROM commits")
        size = federation.clusters.served_bytes(federation.shared)
        outcome = federation.forget(TARGET, **EXCLUDE, repair_rounds=2, repair=kind)
        after = federation.rounds, ledger.value("SELECT COUNT(*) FROM commits")
    assert after == (before[0], before[1] + 1)
    assert outcome.rounds == 2
    assert outcome.stages["repair"].cpu_seconds > 0
    teachers = 2 * 3 * size if kind == "distil" else 0
    assert outcome.bytes_uploaded == 2 * 3 * size
    assert outcome.bytes_broadcast == 2 * 3 * size + teachers + 3 * size  # and recalibration
    assert not (run / "unlearning").exists()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_it_works_with_every_personalisation(name, kind, tmp_path):
    folder = trained(tmp_path / "run", personalization=name, record="contributions")
    found = []
    for rounds in (0, 2):
        with deep_again(copied(folder, tmp_path / str(rounds))) as federation:
            outcome = federation.forget(TARGET, **EXCLUDE, repair_rounds=rounds, repair=kind)
            found.append(federation.shared)
            assert outcome.after == {
                client: score.accuracy for client, score in federation.measure().clients.items()
            }
    assert any(not torch.equal(found[0][key], found[1][key]) for key in found[0])
    assert found[0].keys() == found[1].keys()


def test_the_outcome_says_which_statement_holds(start, tmp_path):
    notes = {}
    for kind in KINDS:
        with deep_again(copied(start, tmp_path / kind)) as federation:
            outcome = federation.forget(TARGET, **EXCLUDE, repair_rounds=1, repair=kind)
            notes[kind] = outcome.notes[-1]
    assert notes["ordinary"].startswith("1 ordinary repair round:")
    assert "still a function of the initial tensors" in notes["ordinary"]
    assert "which knew the targets" in notes["distil"]
    assert "does not hold of the repaired ones" in notes["distil"]


@pytest.mark.parametrize(
    ("options", "says"), [({"strength": 0.5}, False), ({"method": "none"}, False), ({}, True)]
)
def test_only_full_strength_claims_it(options, says, run):
    chosen = options if "method" in options else {**EXCLUDE, **options}
    with deep_again(run) as federation:
        outcome = federation.forget(TARGET, **chosen, repair_rounds=1, repair="ordinary")
    assert ("still a function" in outcome.notes[-1]) == says


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_target_sent_matters_to_a_teacher_alone(kind, tmp_path):
    """Every update of the target replaced by another, those of the others kept as they are."""
    one, two = (_repaired(tmp_path / str(factor), factor, kind) for factor in (1.0, -20.0))
    apart = max(float((one[name] - two[name]).abs().max()) for name in one)
    assert (apart < 1e-4) == (kind == "ordinary")


def _repaired(folder, factor, kind):
    with deep(folder, record="contributions") as federation:
        scale = {TARGET: factor}
        play_crafted(federation, 3, lambda client, _, drawn: drawn * scale.get(client, 1.0))
        federation.forget(TARGET, **EXCLUDE, repair_rounds=2, repair=kind)
        return {name: federation.shared[name] for name in federation.bench.split.parameters}


def test_personal_parts_are_recalibrated_after_any_method_that_was_repaired(run):
    before = tensor_digests(run)
    with deep_again(run) as federation:
        outcome = federation.forget(TARGET, method="none", repair_rounds=1)
    after = tensor_digests(run)
    assert "recalibration" in outcome.stages
    names = [name for name in after if name.endswith("personal.safetensors")]
    assert len(names) == 3
    assert all(after[name] != before[name] for name in names)


def test_a_client_that_is_away_is_left_out_and_that_is_said(run):
    with deep_again(run) as federation:
        outcome = federation.forget(TARGET, **EXCLUDE, repair_rounds=1, away=["c3"])
    assert outcome.notes[-1].startswith("1 client away")
    assert outcome.not_recalibrated == ("c3",)


def test_clusters_are_repaired_each_by_its_own_clients(tmp_path):
    folder = trained(tmp_path / "run", clusters=2, record="none")
    found = []
    for rounds in (0, 2):
        with deep_again(copied(folder, tmp_path / str(rounds))) as federation:
            outcome = federation.forget(
                TARGET, method="knot", repair_rounds=rounds, repair="distil", recalibrate=True
            )
            found.append((outcome.rounds, federation.shared))
    assert found[1][0] == found[0][0] + 2
    changed = {key for key in found[0][1] if not torch.equal(found[0][1][key], found[1][1][key])}
    assert {key.partition("/")[0] for key in changed} == {"cluster-1", "cluster-2"}


@pytest.mark.parametrize("method", ["retrain", "old-heads"])
def test_old_models_do_not_teach_a_method_that_starts_over(method, start, tmp_path):
    with pytest.raises(PfedulError, match="use --repair ordinary"):
        ForgetOptions(method=method, repair_rounds=1, repair="distil")
    with deep_again(copied(start, tmp_path / "run")) as federation:
        outcome = federation.forget(TARGET, method=method, repair_rounds=1)
    assert "repair" in outcome.stages


def test_a_kind_that_does_not_exist_is_refused():
    with pytest.raises(PfedulError, match="--repair is one of ordinary, distil"):
        ForgetOptions(repair="teach")


# Older versions


def test_a_removal_that_an_older_version_was_repairing_is_done(run):
    with deep_again(run) as federation:
        outcome = federation.forget(TARGET, **EXCLUDE, repair_rounds=3)
        options = json.dumps({**outcome.options, "level": "client"})
        sql = "UPDATE requests SET status = 'repairing', repaired = 1, options = ?"
        federation.store.ledger.write([(sql, (options,)), request_entry(1, "repairing")])
    assert read_status(run)["requests"][0]["status"] == "done"
    with deep_again(run) as federation:
        ledger = federation.store.ledger
        note = read_outcome(ledger, read_request(ledger, 1)).notes[-1]
        assert note.startswith("an older version ended before 2 repair rounds of this removal")
        assert federation.forget(TARGET, **EXCLUDE).request == 1
        federation.train(federation.rounds + 1)
        federation.forget("c2", **EXCLUDE)
