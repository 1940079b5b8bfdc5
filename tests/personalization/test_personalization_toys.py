"""Each personalisation on one sample and three weights, with the answer worked out by hand."""

import math

import pytest
import torch

from helpers.toys import one_sample_job
from pfedul.personalization.ditto import DITTO, DittoOptions, fit_local
from pfedul.personalization.fedavg import FEDAVG
from pfedul.personalization.fedper import FEDPER
from pfedul.personalization.fedrep import FEDREP, FedRepOptions

W, A, B, RATE = 1.0, 0.5, -0.25, 0.1


def gradients(w: float, a: float, b: float) -> tuple[float, float, float]:
    """Of the cross-entropy at x = 1, y = 0, with logits (a*w, b*w)."""
    p = math.exp(a * w) / (math.exp(a * w) + math.exp(b * w))
    return (p - 1) * a + (1 - p) * b, (p - 1) * w, (1 - p) * w


def step(w: float, a: float, b: float, rate: float = RATE) -> tuple[float, float, float]:
    dw, da, db = gradients(w, a, b)
    return w - rate * dw, a - rate * da, b - rate * db


def close(tensor: torch.Tensor, *values: float) -> bool:
    return tensor.flatten().tolist() == pytest.approx(values, rel=1e-6)


def test_fedavg_moves_everything_and_keeps_nothing():
    fitted = FEDAVG.fit(one_sample_job(FEDAVG))
    w, a, b = step(W, A, B)
    assert close(fitted.shared["body.weight"], w)
    assert close(fitted.shared["head.weight"], a, b)
    assert fitted.personal == {}


def test_fedper_moves_both_parts_at_once():
    fitted = FEDPER.fit(one_sample_job(FEDPER))
    w, a, b = step(W, A, B)
    assert close(fitted.shared["body.weight"], w)
    assert close(fitted.personal["head.weight"], a, b)
    assert fitted.loss == pytest.approx(math.log(1 + math.exp((B - A) * W)))


def test_fedrep_moves_the_head_first_and_the_body_under_the_new_head():
    fitted = FEDREP.fit(one_sample_job(FEDREP, FedRepOptions()))
    _, a, b = step(W, A, B)
    w, _, _ = step(W, a, b)
    assert close(fitted.personal["head.weight"], a, b)
    assert close(fitted.shared["body.weight"], w)
    assert not close(fitted.shared["body.weight"], step(W, A, B)[0])


def test_fedrep_head_epochs():
    fitted = FEDREP.fit(one_sample_job(FEDREP, FedRepOptions(head_epochs=3)))
    a, b = A, B
    for _ in range(3):
        _, a, b = step(W, a, b)
    assert close(fitted.personal["head.weight"], a, b)


def test_ditto_keeps_global_and_local_model_apart():
    job = one_sample_job(DITTO, DittoOptions(lam=0.5))
    local = {"body.weight": torch.tensor([[2.0]]), "head.weight": torch.tensor([[0.1], [0.2]])}
    job.personal.update(local)
    fitted = DITTO.fit(job)
    assert close(fitted.shared["body.weight"], step(W, A, B)[0])
    dw, da, db = gradients(2.0, 0.1, 0.2)
    # The pull is toward the global model that arrived, not the one just trained.
    assert close(fitted.personal["body.weight"], 2.0 - RATE * (dw + 0.5 * (2.0 - W)))
    expected = 0.1 - RATE * (da + 0.5 * (0.1 - A)), 0.2 - RATE * (db + 0.5 * (0.2 - B))
    assert close(fitted.personal["head.weight"], *expected)


def test_ditto_with_a_strong_pull_ends_at_the_global_model():
    job = one_sample_job(DITTO, DittoOptions(lam=9.0), epochs=200)
    job.personal["body.weight"] = torch.tensor([[5.0]])
    local = fit_local(job, job.personal, job.training)
    assert local["body.weight"].item() == pytest.approx(W, abs=0.1)


def test_momentum_is_fresh_in_every_round():
    job = one_sample_job(FEDPER, momentum=0.9, epochs=3)  # one model object, as in a worker
    first, again = FEDPER.fit(job), FEDPER.fit(job)
    assert torch.equal(first.shared["body.weight"], again.shared["body.weight"])
