"""FedRep: a shared body under a personal head, trained in turns.

Each round the head is fitted first, on the features of the body as it arrived
(frozen, in eval mode, computed once); then the body is trained under that head.
The original trains the head for many epochs and the body for one; here both
take the round's local epochs unless `head_epochs` says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.base.options import option
from pfedul.base.tensors import load_tensors
from pfedul.personalization.base import Fitted, Job, Personalization
from pfedul.personalization.local import (
    frozen,
    head_parts,
    read_fitted,
    run_sgd,
    train_head,
    trainable,
)
from pfedul.personalization.recalibration import refit_head
from pfedul.split import split_head


@dataclass(frozen=True)
class FedRepOptions:
    """How long the head is trained."""

    head_epochs: int | None = option(
        None, "epochs of the head phase; as many as the body's unless given", at_least=1
    )


def fit(job: Job) -> Fitted:
    """Head with the body frozen, then body with the head frozen."""
    assert job.head is not None
    load_tensors(job.model, job.shared, job.personal)
    head_epochs = job.options.head_epochs or job.training.epochs
    train_head(job.model, job.head, job.samples, job.training, head_epochs)
    return read_fitted(job, _train_body(job, job.head))


def _train_body(job: Job, head: str) -> float:
    job.model.train()
    head_module, _ = head_parts(job.model, head)
    head_module.eval()
    with frozen(list(head_module.parameters())):
        return run_sgd(job.model, trainable(job.model), job.samples, job.training)


FEDREP = Personalization(
    name="fedrep",
    summary="shared body, personal head, trained in turns",
    shared="all but the head",
    personal="the head",
    local_training="head with the body frozen, then body with the head frozen",
    recalibration="the head, everything else frozen",
    paper="Collins et al., ICML 2021",
    options=FedRepOptions,
    split=split_head,
    fit=fit,
    recalibrate=refit_head,
    needs_head=True,
)
