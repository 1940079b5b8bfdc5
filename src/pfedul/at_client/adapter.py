"""Training of an adapter on frozen shared tensors, through a personal part that stands still.

The directions of the adapter are made again from the seed that came along; only its
values travel. No statistics move, so that without the adapter everything is as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.func import functional_call

from pfedul.adapters import Adapter, AdapterKind, with_values
from pfedul.base.tensors import Tensors
from pfedul.personalization.base import Job
from pfedul.personalization.local import frozen, run_sgd
from pfedul.protocol import Done
from pfedul.unlearn.training import SharedTraining, options_from, settings_of, shared_model


@dataclass(frozen=True)
class AdapterTraining(AdapterKind):
    """The adapter, and how it is trained; what is None is as in ordinary rounds."""

    epochs: int = 1
    lr: float | None = None


def train_adapter(job: Job, how: Mapping[str, Any], extra: Tensors) -> Done:
    """Epochs over the client's samples; sends back the values of the adapter."""
    wish = options_from(AdapterTraining, how)
    values = {name: tensor.clone().requires_grad_() for name, tensor in extra.items()}
    with shared_model(job, statistics=False) as parameters, frozen(list(parameters.values())):
        loss = _descend(job, wish, {name: parameters[name].detach() for name in values}, values)
    return Done({name: tensor.detach() for name, tensor in values.items()}, {"loss": loss})


def _descend(job: Job, wish: AdapterTraining, base: Tensors, values: Tensors) -> float:
    def adapted(x: Tensor) -> Tensor:
        changed = with_values(base, Adapter(wish, values))
        logits: Tensor = functional_call(job.model, changed, (x,))
        return logits

    training = settings_of(job.training, SharedTraining(wish.epochs, wish.lr))
    return run_sgd(adapted, list(values.values()), job.samples, training)
