"""PGA's work at a target, by hand on one weight and inside its ball on a model with BatchNorm."""

import math

import pytest
import torch

from helpers.toys import norm_job, one_sample_job
from pfedul.base.tensors import read_tensors
from pfedul.base.vectors import square_distance
from pfedul.personalization import PERSONALIZATIONS
from pfedul.unlearn.methods.pga import ProjectedAscent, ascend_in_ball
from pfedul.unlearn.training import train_shared

BODY = "body.weight"
FAR = {BODY: torch.tensor([[100.0]])}


def ascended(last: dict, **wish):
    job = one_sample_job(PERSONALIZATIONS["fedper"])
    return ascend_in_ball(job, vars(ProjectedAscent(**wish)), last)


def test_without_ball_and_limit_it_is_plain_ascent():
    done = ascended(FAR, epochs=3)
    plain = train_shared(one_sample_job(PERSONALIZATIONS["fedper"]), {"objective": "ascend"}, {})
    assert float(done.tensors[BODY]) < float(plain.tensors[BODY]) < 1
    assert torch.equal(ascended(FAR, epochs=1).tensors[BODY], plain.tensors[BODY])
    assert (done.metrics["steps"], done.metrics["steps_bound"], done.metrics["stopped"]) == (
        3,
        0,
        0,
    )


def test_a_step_out_of_the_ball_ends_on_its_surface():
    done = ascended(FAR, epochs=3, square_radius=0.001**2)
    assert float(done.tensors[BODY]) == pytest.approx(1 - 0.001, abs=1e-7)
    assert done.metrics["steps_bound"] == 3


def test_it_stops_once_it_is_far_enough_from_the_last_upload():
    # One step is about 0.1 * 0.75 * (1 - p) = 0.024 down; the last upload is 0.01 above.
    step = 0.1 * 0.75 * (1 - 1 / (1 + math.exp(-0.75)))
    last = {BODY: torch.tensor([[1.01]])}
    for limit, steps in [((0.01 + 0.9 * step) ** 2, 1), ((0.01 + 1.5 * step) ** 2, 2)]:
        done = ascended(last, epochs=9, limit=limit)
        assert (done.metrics["steps"], done.metrics["stopped"]) == (steps, 1)
    assert ascended(last, epochs=9, limit=100.0).metrics["stopped"] == 0


@pytest.mark.parametrize("name", ["fedavg", "fedper", "fedbn", "ditto"])
@pytest.mark.parametrize("radius", [0.01, 0.05])
def test_it_never_leaves_the_ball_and_only_parameters_move(name, radius):
    job = norm_job(name, lr=0.5)
    parameters = [n for n in job.split.shared if n in job.split.parameter_names]
    last = {n: job.shared[n] + 1 for n in parameters}
    how = ProjectedAscent(epochs=4, clip=5.0, square_radius=radius**2)
    done = ascend_in_ball(job, vars(how), last)
    assert done.metrics["steps_bound"] > 0
    away = square_distance(done.tensors, job.shared, parameters) ** 0.5
    assert away <= radius * (1 + 1e-5)
    assert away >= 0.5 * radius
    for other in set(job.split.shared) - set(parameters):
        assert torch.equal(done.tensors[other], job.shared[other])
    if name in {"fedper", "fedbn"}:
        held = read_tensors(job.model, job.split.personal)
        assert all(torch.equal(held[n], t) for n, t in job.personal.items())
