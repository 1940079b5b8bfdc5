"""Recalibration: personal parts follow changed shared tensors, which stay as they are."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from helpers.toys import WithNorm, one_sample_job, samples
from pfedul.base.registry import NoOptions
from pfedul.base.tensors import load_tensors
from pfedul.data.samples import TensorSamples
from pfedul.personalization import PERSONALIZATIONS, Job, LocalTraining, Recalibration
from pfedul.personalization.ditto import DITTO, DittoOptions
from pfedul.personalization.fedper import FEDPER
from pfedul.personalization.fedrep import FEDREP, FedRepOptions
from pfedul.personalization.recalibration import (
    HEAD_DECAY,
    HEAD_EPOCHS,
    reestimate_statistics,
    renewed_statistics,
)

MEAN, VAR, COUNT = (f"body.1.{n}" for n in ("running_mean", "running_var", "num_batches_tracked"))
ONCE = Recalibration(epochs=1)
THOROUGH = Recalibration(epochs=None)


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
    load_tensors(job.model, job.shared, job.personal)
    return PERSONALIZATIONS[name.partition(":")[0]].recalibrate(job, how)


@pytest.mark.parametrize(("entry", "options"), [(FEDPER, NoOptions()), (FEDREP, FedRepOptions())])
def test_the_head_takes_one_step_under_the_changed_body(entry, options):
    job = one_sample_job(entry, options)
    job.shared["body.weight"] = torch.tensor([[2.0]])
    load_tensors(job.model, job.shared, job.personal)
    head = entry.recalibrate(job, ONCE)["head.weight"]
    p = math.exp(1.0) / (math.exp(1.0) + math.exp(-0.5))  # logits (0.5, -0.25) * 2
    expected = [0.5 - 0.1 * (p - 1) * 2, -0.25 - 0.1 * (1 - p) * 2]
    assert head.flatten().tolist() == pytest.approx(expected)


def test_ditto_takes_proximal_steps_toward_the_new_shared_model():
    job = one_sample_job(DITTO, DittoOptions(lam=0.5))
    job.shared["body.weight"] = torch.tensor([[3.0]])
    load_tensors(job.model, job.shared, job.personal)
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
def test_shared_statistics_are_those_of_the_samples_under_the_shared_weights(name):
    job = norm_job(name)
    fresh = renewed_statistics(job)
    assert set(fresh) == {MEAN, VAR}
    x = job.samples.x @ job.shared["body.0.weight"].T + job.shared["body.0.bias"]
    torch.testing.assert_close(fresh[MEAN], x.mean(0))
    torch.testing.assert_close(fresh[VAR], x.var(0))


def test_personal_statistics_are_not_shared():
    assert renewed_statistics(norm_job("fedbn")) == {}


def test_a_thorough_head_has_converged_where_two_epochs_have_not():
    """At the minimum of the regularised loss its gradient is zero."""

    def gradient(how):
        job = norm_job("fedper", lr=0.1, momentum=0.9)
        load_tensors(job.model, recalibrate("fedper", job, how))
        job.model.eval()
        head = job.model.head
        decay = HEAD_DECAY / 2 * sum((p**2).sum() for p in head.parameters())
        loss = nn.functional.cross_entropy(job.model(job.samples.x), job.samples.y) + decay
        return sum(float(g.norm()) for g in torch.autograd.grad(loss, head.parameters()))

    assert gradient(THOROUGH) < gradient(Recalibration(epochs=2)) / 5


def test_the_rate_of_a_thorough_head_falls_along_a_cosine():
    """One sample: the steps can be repeated with torch's own optimiser and schedule."""
    job = one_sample_job(FEDPER, NoOptions())
    load_tensors(job.model, job.shared, job.personal)
    expected = copy.deepcopy(job.model)
    head = FEDPER.recalibrate(job, THOROUGH)["head.weight"]
    sgd = torch.optim.SGD(
        expected.head.parameters(), job.training.lr, job.training.momentum, weight_decay=HEAD_DECAY
    )
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(sgd, HEAD_EPOCHS)
    for _ in range(HEAD_EPOCHS):
        sgd.zero_grad()
        nn.functional.cross_entropy(expected(job.samples.x), job.samples.y).backward()
        sgd.step()
        rate.step()
    torch.testing.assert_close(head, expected.head.weight.detach())


@pytest.mark.parametrize("name", ["fedper", "fedrep"])
def test_a_thorough_head_costs_one_pass_through_the_body(name):
    job, seen = norm_job(name), []
    job.model.body.register_forward_hook(lambda _module, inputs, _out: seen.append(len(inputs[0])))
    recalibrate(name, job, THOROUGH)
    assert seen == [len(job.samples)]


@pytest.mark.parametrize("name", ["fedavg", "fedper", "fedrep", "ditto", "fedbn"])
def test_thorough_recalibration_leaves_the_shared_tensors_and_refits_the_others(name):
    job = norm_job(name)
    shared = {key: tensor.clone() for key, tensor in job.shared.items()}
    before = {key: tensor.clone() for key, tensor in job.personal.items()}
    after = recalibrate(name, job, THOROUGH)
    assert after.keys() == before.keys()
    assert all(torch.equal(job.shared[key], shared[key]) for key in shared)
    unused = {COUNT, "body.0.bias"}  # the bias before a normalisation has no gradient
    fitted = [key for key in after if key not in unused]
    moved = [key for key in fitted if not torch.equal(after[key], before[key])]
    assert moved == ([MEAN, VAR] if name == "fedbn" else fitted)


def test_a_thorough_affine_of_fedbn_is_trained_along_a_cosine():
    plain, affine = (
        recalibrate("fedbn", norm_job("fedbn", lr=0.5), Recalibration(None, affine=affine))
        for affine in (False, True)
    )
    constant = recalibrate("fedbn", norm_job("fedbn", lr=0.5), Recalibration(2, affine=True))
    assert torch.equal(plain["body.1.weight"], norm_job("fedbn").personal["body.1.weight"])
    assert not torch.equal(affine["body.1.weight"], plain["body.1.weight"])
    assert not torch.equal(affine["body.1.weight"], constant["body.1.weight"])


def test_a_thorough_local_model_of_ditto_knows_nothing_of_the_old_one():
    results = []
    for start in (1.0, 5.0):
        job = one_sample_job(DITTO, DittoOptions(lam=0.5))
        job.personal["body.weight"] = torch.tensor([[start]])
        load_tensors(job.model, job.shared, job.personal)
        results.append(DITTO.recalibrate(job, THOROUGH)["body.weight"].item())
    assert results[0] == results[1]


@pytest.mark.parametrize("count", [2, 100, 256, 257, 258, 512, 600])
@pytest.mark.parametrize("ordered", [False, True], ids=["mixed", "by-label"])
def test_statistics_are_those_of_all_samples_however_they_fall_into_batches(count, ordered):
    model, data = WithNorm(), samples(count)
    order = torch.argsort(data.y, stable=True) if ordered else torch.arange(count)
    reestimate_statistics(model, TensorSamples(data.x[order], data.y[order]))
    with torch.no_grad():
        x = model.body[0](data.x)
    torch.testing.assert_close(model.body[1].running_mean, x.mean(0))
    torch.testing.assert_close(model.body[1].running_var, x.var(0))


def test_statistics_of_images_count_every_point():
    model = nn.Sequential(nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(18, 3))
    x = torch.randn(300, 2, 3, 3, generator=torch.Generator().manual_seed(0))
    reestimate_statistics(model, TensorSamples(x, torch.zeros(300, dtype=torch.int64)))
    torch.testing.assert_close(model[0].running_mean, x.mean((0, 2, 3)))
    torch.testing.assert_close(model[0].running_var, x.transpose(0, 1).flatten(1).var(1))


def test_statistics_of_one_batch_are_its_own_bit_for_bit():
    model, data = WithNorm(), samples(200)
    reestimate_statistics(model, data)
    other = copy.deepcopy(model).train()
    other.body[1].momentum = 1.0
    other(data.x)
    assert torch.equal(model.body[1].running_mean, other.body[1].running_mean)
    assert torch.equal(model.body[1].running_var, other.body[1].running_var)


def test_a_reestimated_layer_is_otherwise_as_before():
    model, data = WithNorm(), samples(600)
    norm = model.body[1]
    norm.num_batches_tracked.fill_(7)
    momentum = norm.momentum
    reestimate_statistics(model, data)
    assert norm.momentum == momentum
    assert norm.num_batches_tracked.item() == 7
    assert not norm.training
    assert not norm._forward_hooks


def test_a_single_sample_leaves_the_statistics_alone():
    job = replace(norm_job("fedbn"), samples=samples(1))
    load_tensors(job.model, job.shared, job.personal)
    reestimate_statistics(job.model, job.samples)
    assert torch.equal(job.model.state_dict()[MEAN], job.personal[MEAN])
