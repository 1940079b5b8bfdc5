"""Distillation at a client: shared tensors are trained with the client's own old model as teacher.

The loss is cross-entropy plus `PULL` times the squared distance between the features now (what the
head is given) and those of the teacher, divided by the variance of the latter. Where no head is
found, or the model does not call it as a module with one input, logits take the place of features.

The teacher is the old shared tensors, which come with the task, beside the client's own old
personal part; with Ditto it is the old shared model. It looks at each batch as the student does,
which costs one forward pass for each epoch, and the client keeps nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pfedul.base.tensors import Tensors, load_tensors, read_tensors
from pfedul.errors import PfedulError
from pfedul.personalization.base import Job
from pfedul.personalization.local import run_sgd
from pfedul.protocol import ClientResult
from pfedul.split import head_of
from pfedul.unlearn.training import SharedTraining, options_from, settings_of, shared_model

PULL = 16
"""Less keeps less accuracy; twice as much makes steps too long at rates of 0.05 and more."""


def distil_shared(job: Job, how: Mapping[str, Any], teacher: Tensors) -> ClientResult:
    """As `train_shared`, held near the features of the teacher."""
    options, head = options_from(SharedTraining, how), job.head or _found_head(job.model)
    old = Watched(_teacher(job, teacher), head)
    with (
        shared_model(job, options.statistics, options.by_batch) as parameters,
        closing(Watched(job.model, head)) as now,
    ):

        def both(x: Tensor) -> Tensor:
            with torch.no_grad():
                old(x)
            return now(x)

        def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
            return F.cross_entropy(logits, labels) + PULL * distance(now.features, old.features)

        training = settings_of(job.training, options)
        loss = run_sgd(both, list(parameters.values()), job.samples, training, loss_of=loss_of)
    return ClientResult(read_tensors(job.model, job.split.shared), {"loss": loss})


def distance(now: Tensor, old: Tensor) -> Tensor:
    """The mean squared distance in units of the variance of the old.

    >>> distance(torch.tensor([1.0, 1.0]), torch.tensor([0.0, 2.0])).item()
    1.0
    """
    variance = old.var(correction=0)
    return F.mse_loss(now, old) / torch.where(variance > 0, variance, 1.0)


def _teacher(job: Job, shared: Tensors) -> nn.Module:
    model = copy.deepcopy(job.model)
    load_tensors(model, shared, job.split.beside_shared(job.personal))
    return model.eval()


def _found_head(model: nn.Module) -> str | None:
    try:
        return head_of(model)
    except PfedulError:
        return None


DISTIL_SHARED = {"distil-shared": distil_shared}
"""What clients run for repair rounds with a teacher."""


class Watched:
    """A model whose features can be looked at after it was called."""

    def __init__(self, model: nn.Module, head: str | None) -> None:
        self._model = model
        self._seen: list[Tensor] = []
        module = None if head is None else model.get_submodule(head)
        self._hook = None if module is None else module.register_forward_pre_hook(self._note)

    def _note(self, _module: nn.Module, inputs: tuple[Any, ...]) -> None:
        self._seen += inputs

    def __call__(self, x: Tensor) -> Tensor:
        self._seen.clear()
        logits: Tensor = self._model(x)
        self.features = self._seen[0] if len(self._seen) == 1 else logits
        return logits

    def close(self) -> None:
        """Leave the model as it was."""
        if self._hook is not None:
            self._hook.remove()
