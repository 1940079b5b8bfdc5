"""Recalibration: personal parts follow changed shared tensors, which stay as they are."""

import math
from dataclasses import replace

import pytest
import torch

from helpers.toys import WithNorm, one_sample_job, samples
from pfedul.base.registry import NoOptions
from pfedul.base.tensors import load_tensors
from pfedul.personalization import PERSONALIZATIONS, Job, LocalTraining, Recalibration
from pfedul.personalization.ditto import DITTO, DittoOptions
from pfedul.personalization.fedper import FEDPER
from pfedul.personalization.fedrep import FEDREP, FedRepOptions
from pfedul.personalization.recalibration import prepare, reestimate_statistics

MEAN, VAR, COUNT = (f"body.1.{n}" for n in ("running_mean", "running_var", "num_batches_tracked"))
ONCE = Recalibration(epochs=1)


def norm_job(name: str, **training) -> Job:
    """A job on the model with BatchNorm, whose shared tensors differ from what it was fitted to."""
    torch.manual_seed(0)
    entry, options = PERSONALIZATIONS.parse(name)
    model = WithNorm()
    split = entry.split(model)
    state = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    shared = {key: state[key] for key in split.shared}
    shared["body.0.weight"] = shared["body.0.weight"] * 1.5
    return Job(
        client="c0",
        model=model,
        split=split,
        head="head" if entry.needs_head else None,
        shared=shared,
        personal={key: state[key] for key in split.personal},
        samples=samples(24),
        training=LocalTraining(**{"epochs": 1, "batch_size": 8, **training}),
        options=options,
    )


def recalibrate(name: str, job: Job, how: Recalibration = ONCE) -> dict:
    prepare(job, how)
    return PERSONALIZATIONS[name.partition(":")[0]].recalibrate(job, how)


@pytest.mark.parametrize(("entry", "options"), [(FEDPER, NoOptions()), (FEDREP, FedRepOptions())])
def test_the_head_takes_one_step_under_the_changed_body(entry, options):
    job = one_sample_job(entry, options)
    job.shared["body.weight"] = torch.tensor([[2.0]])
    prepare(job, ONCE)
    head = entry.recalibrate(job, ONCE)["head.weight"]
    p = math.exp(1.0) / (math.exp(1.0) + math.exp(-0.5))  # logits (0.5, -0.25) * 2
    expected = [0.5 - 0.1 * (p - 1) * 2, -0.25 - 0.1 * (1 - p) * 2]
    assert head.flatten().tolist() == pytest.approx(expected)


def test_ditto_takes_proximal_steps_toward_the_new_shared_model():
    job = one_sample_job(DITTO, DittoOptions(lam=0.5))
    job.shared["body.weight"] = torch.tensor([[3.0]])
    prepare(job, ONCE)
    local = DITTO.recalibrate(job, ONCE)["body.weight"].item()
    p = math.exp(0.5) / (math.exp(0.5) + math.exp(-0.25))
    gradient = (p - 1) * 0.5 + (1 - p) * -0.25
    assert local == pytest.approx(1.0 - 0.1 * (gradient + 0.5 * (1.0 - 3.0)))


def test_fedavg_has_nothing_to_recalibrate():
    assert recalibrate("fedavg", norm_job("fedavg")) == {}


def test_fedbn_statistics_are_those_of_its_samples_under_the_new_weights():
    job = norm_job("fedbn")
    personal = recalibrate("fedbn", job)
    x = job.samples.x @ job.shared["body.0.weight"].T + job.shared["body.0.bias"]
    torch.testing.assert_close(personal[MEAN], x.mean(0))
    torch.testing.assert_close(personal[VAR], x.var(0))
    assert torch.equal(personal["body.1.weight"], job.personal["body.1.weight"])
    assert torch.equal(personal[COUNT], job.personal[COUNT])


def test_fedbn_trains_weights_and_biases_only_if_asked():
    job = norm_job("fedbn")
    personal = recalibrate("fedbn", job, Recalibration(epochs=2, affine=True))
    assert not torch.equal(personal["body.1.weight"], job.personal["body.1.weight"])
    state = job.model.state_dict()
    assert torch.equal(state["body.0.weight"], job.shared["body.0.weight"])
    assert torch.equal(state["head.weight"], job.shared["head.weight"])


@pytest.mark.parametrize("name", ["fedper", "fedrep", "fedbn"])
def test_shared_tensors_do_not_move(name):
    job = norm_job(name)
    recalibrate(name, job, Recalibration(epochs=3))
    state = job.model.state_dict()
    assert all(torch.equal(state[key], tensor) for key, tensor in job.shared.items())


@pytest.mark.parametrize("name", ["fedavg", "fedper", "ditto"])
def test_shared_statistics_are_estimated_anew_if_asked(name):
    job = norm_job(name)
    assert prepare(job, ONCE) == {}
    fresh = prepare(job, Recalibration(statistics=True))
    assert set(fresh) == {MEAN, VAR}
    x = job.samples.x @ job.shared["body.0.weight"].T + job.shared["body.0.bias"]
    torch.testing.assert_close(fresh[MEAN], x.mean(0))


def test_dittos_local_model_keeps_its_own_statistics():
    job = norm_job("ditto")
    prepare(job, Recalibration(statistics=True))
    assert torch.equal(job.model.state_dict()[MEAN], job.personal[MEAN])


def test_personal_statistics_are_not_shared():
    assert prepare(norm_job("fedbn"), Recalibration(statistics=True)) == {}


def test_statistics_are_averaged_over_batches_and_the_layer_is_as_before():
    model, data = WithNorm(), samples(600)
    momentum = model.body[1].momentum
    reestimate_statistics(model, data)
    with torch.no_grad():
        means = [model.body[0](part).mean(0) for part in torch.split(data.x, 256)]
    torch.testing.assert_close(model.body[1].running_mean, torch.stack(means).mean(0))
    assert model.body[1].momentum == momentum
    assert not model.body[1].training


def test_a_single_sample_leaves_the_statistics_alone():
    job = replace(norm_job("fedbn"), samples=samples(1))
    load_tensors(job.model, job.shared, job.personal)
    reestimate_statistics(job.model, job.samples)
    assert torch.equal(job.model.state_dict()[MEAN], job.personal[MEAN])
