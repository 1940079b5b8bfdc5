"""Training of shared tensors alone: by hand on one weight, then what may not move."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from helpers.toys import norm_job, one_sample_job
from pfedul.base.tensors import read_tensors
from pfedul.personalization import PERSONALIZATIONS, Job
from pfedul.unlearn.training import SharedTraining, set_modes, shared_model, train_shared

BODY = "body.weight"
KNOWN = 1 / (1 + math.exp(-0.75))
"""The probability of class 0 on the model of one weight: its logits are 0.5 w and -0.25 w."""
SLOPE = -0.75 * (1 - KNOWN)
"""Of the cross-entropy along the weight."""
UNLEARN_SLOPE = 0.75 * KNOWN * (1 - KNOWN) / (2 - KNOWN)
"""Of -log(1 - p/2)."""


def trained(job: Job, **wish) -> dict:
    return train_shared(job, vars(SharedTraining(**wish)), {}).tensors


def weight(name: str = "fedper", training: dict | None = None, **wish) -> float:
    job = one_sample_job(PERSONALIZATIONS[name], **(training or {}))
    return float(trained(job, **wish)[BODY])


@pytest.mark.parametrize(
    ("objective", "slope"),
    [("descend", SLOPE), ("ascend", -SLOPE), ("unlearn", UNLEARN_SLOPE)],
)
def test_one_step_goes_down_the_slope_of_its_objective(objective, slope):
    assert weight(objective=objective) == pytest.approx(1 - 0.1 * slope, abs=1e-6)


def test_the_loss_that_is_sent_back_is_that_of_the_objective():
    for objective, loss in [
        ("descend", -math.log(KNOWN)),
        ("ascend", math.log(KNOWN)),
        ("unlearn", -math.log(1 - KNOWN / 2)),
    ]:
        job = one_sample_job(PERSONALIZATIONS["fedper"])
        found = train_shared(job, {"objective": objective}, {}).metrics["loss"]
        assert found == pytest.approx(loss, abs=1e-6)


def test_a_clipped_gradient_keeps_its_sign_and_has_the_norm_that_is_allowed():
    assert weight(objective="ascend", clip=0.01) == pytest.approx(1 - 0.1 * 0.01, abs=1e-6)
    assert weight(objective="ascend", clip=100.0) == weight(objective="ascend")


def test_what_is_wished_for_replaces_the_settings_of_training():
    assert weight(lr=0.3) == pytest.approx(1 - 0.3 * SLOPE, abs=1e-6)
    first = 1 - 0.1 * SLOPE
    known = 1 / (1 + math.exp(-0.75 * first))
    without_momentum = first + 0.1 * 0.75 * (1 - known)
    usual = {"momentum": 0.9}
    assert weight(training=usual, epochs=2, momentum=0.0) == pytest.approx(without_momentum)
    with_momentum = without_momentum - 0.9 * 0.1 * SLOPE
    assert weight(training=usual, epochs=2) == pytest.approx(with_momentum)


def test_weight_decay_is_a_part_of_descent_alone():
    usual = {"weight_decay": 0.5}
    assert weight(training=usual) == pytest.approx(1 - 0.1 * (SLOPE + 0.5), abs=1e-6)
    assert weight(training=usual, objective="ascend") == weight(objective="ascend")
    assert weight(training=usual, objective="unlearn") == weight(objective="unlearn")


def test_fedavg_trains_the_head_as_well():
    job = one_sample_job(PERSONALIZATIONS["fedavg"])
    assert trained(job)["head.weight"].flatten().tolist() != [0.5, -0.25]


@pytest.mark.parametrize("name", ["fedper", "fedrep", "fedbn"])
@pytest.mark.parametrize("statistics", [True, False])
def test_the_personal_part_stands_still_bit_for_bit(name, statistics):
    job = norm_job(name)
    after = trained(job, epochs=2, statistics=statistics)
    assert after.keys() == job.shared.keys()
    held = read_tensors(job.model, job.split.personal)
    assert all(torch.equal(held[key], tensor) for key, tensor in job.personal.items())
    assert not torch.equal(after["body.0.weight"], job.shared["body.0.weight"])


@pytest.mark.parametrize("name", ["fedavg", "fedper", "ditto"])
def test_shared_statistics_move_only_if_they_may(name):
    for statistics in (True, False):
        job = norm_job(name)
        after = trained(job, statistics=statistics)
        same = torch.equal(after["body.1.running_mean"], job.shared["body.1.running_mean"])
        assert same is not statistics


def test_ditto_trains_the_shared_model_and_does_not_ask_the_local_one():
    one, other = norm_job("ditto"), norm_job("ditto")
    changed = {k: t * 3 if t.is_floating_point() else t for k, t in one.personal.items()}
    torch.manual_seed(1)
    expected = trained(one)
    torch.manual_seed(1)
    found = trained(replace(other, personal=changed))
    assert all(torch.equal(found[key], expected[key]) for key in expected)
    plain = norm_job("fedavg")
    torch.manual_seed(1)
    as_fedavg = trained(plain)
    assert all(torch.equal(as_fedavg[key], expected[key]) for key in expected)


class Mixed(nn.Module):
    """A head of several modules, and a mask that no state dict holds."""

    head_name = "head"

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones(4), persistent=False)
        self.body = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
        self.head = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x * self.mask))


def modes(name: str, statistics: bool = True) -> dict[str, bool]:
    model = Mixed()
    set_modes(model, set(PERSONALIZATIONS[name].split(model).shared), statistics)
    return {path: module.training for path, module in model.named_modules()}


def test_the_modules_of_a_personal_head_are_in_eval_mode_and_the_body_is_not():
    found = modes("fedper")
    assert not any(found[f"head.{index}"] for index in range(3))
    assert all(found[f"body.{index}"] for index in range(3))
    assert not modes("fedper", statistics=False)["body.1"]


def test_fedbns_normalisation_is_in_eval_mode_and_nothing_else():
    found = modes("fedbn")
    assert [path for path, training in found.items() if not training] == ["body.1", "head.1"]


def test_a_constant_of_the_model_itself_puts_none_of_its_children_into_eval_mode():
    assert all(modes("fedavg").values())
    assert modes("fedavg", statistics=False)["body.2"]


def test_a_model_whose_shared_part_its_author_froze_comes_back_as_it_was():
    job = one_sample_job(PERSONALIZATIONS["fedper"])
    job.model.body.weight.requires_grad_(False)
    done = train_shared(job, {"objective": "ascend"}, {})
    assert float(done.tensors[BODY]) == 1.0
    assert done.metrics["loss"] == pytest.approx(-math.log(KNOWN), abs=1e-6)


def test_gradients_are_wanted_again_where_they_were():
    job = one_sample_job(PERSONALIZATIONS["fedper"])
    with shared_model(job) as parameters:
        assert list(parameters) == [BODY]
        assert not job.model.head.weight.requires_grad
    assert job.model.head.weight.requires_grad
