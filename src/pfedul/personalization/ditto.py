"""Ditto: a global model as in FedAvg, and a whole local model held near it.

The local model v takes its own steps on F(v) + (lambda/2) * ||v - w||^2, where w
is the global model as it arrived. The two never mix: w is aggregated, v stays.
The penalty covers parameters; running statistics follow the client's data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from pfedul.base.options import option
from pfedul.base.tensors import Tensors, load_tensors, read_tensors
from pfedul.personalization.base import Fitted, Job, LocalTraining, Personalization, Recalibration
from pfedul.personalization.local import run_sgd, trainable
from pfedul.split import split_whole

THOROUGH_EPOCHS = 3
"""Of a whole local model, begun at the shared one."""


@dataclass(frozen=True)
class DittoOptions:
    """How strongly the local model is held near the global one."""

    lam: float = option(0.1, "lambda of the penalty; 0.1 as in the pFedUL paper", at_least=0)


def fit(job: Job) -> Fitted:
    """The global model by plain SGD, then the local model with the pull toward what arrived."""
    load_tensors(job.model, job.shared)
    job.model.train()
    loss = run_sgd(job.model, trainable(job.model), job.samples, job.training)
    shared = read_tensors(job.model, job.split.shared)
    return Fitted(shared, fit_local(job, job.personal, job.training), loss)


def fit_local(job: Job, start: Tensors, training: LocalTraining) -> Tensors:
    """A local model after proximal steps toward the shared model of the job."""
    load_tensors(job.model, start)
    job.model.train()
    named = {name: p for name, p in job.model.named_parameters() if p.requires_grad}

    @torch.no_grad()
    def pull_toward_shared() -> None:
        for name, parameter in named.items():
            if parameter.grad is None:  # the penalty also applies to one that the loss does not use
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad.add_(parameter - job.shared[name], alpha=job.options.lam)

    parameters = list(named.values())
    run_sgd(job.model, parameters, job.samples, training, adjust_gradients=pull_toward_shared)
    return read_tensors(job.model, job.split.personal)


def recalibrate(job: Job, how: Recalibration) -> Tensors:
    """Eq. 13: the local optimisation again, with the changed shared model as its anchor.

    The old local model knew the targets through its old anchor. So a thorough recalibration
    begins with the changed shared model instead.
    """
    thorough = replace(job.training, epochs=THOROUGH_EPOCHS, cosine=True)
    start = job.shared if how.epochs is None else job.personal
    return fit_local(job, start, how.training(job.training, thorough))


DITTO = Personalization(
    name="ditto",
    summary="a global model, and a whole local model held near it",
    shared="the whole global model",
    personal="a whole local model",
    local_training="the global model, then the local one with (lambda/2)*||v - shared||^2",
    recalibration="proximal steps toward the new shared model",
    paper="Li et al., ICML 2021",
    options=DittoOptions,
    split=split_whole,
    fit=fit,
    recalibrate=recalibrate,
)
