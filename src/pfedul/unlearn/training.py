"""Training of the shared tensors alone, through a personal part that stands still.

What every rival method is reduced to on a personalised federation (Table 3 of the
paper): gradients pass through the personal part, only shared parameters step.
Modules with personal tensors are in eval mode, so that no statistics of theirs
move. In Ditto the shared tensors are a whole model, and the local one is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pfedul.base.tensors import Tensors, load_tensors, read_tensors
from pfedul.personalization.base import Job, LocalTraining
from pfedul.personalization.local import Loss, frozen, run_sgd
from pfedul.protocol import Done


@dataclass(frozen=True)
class SharedTraining:
    """How shared tensors are trained; what is None is as in ordinary rounds.

    `objective`: one of `OBJECTIVES`. `clip` bounds the norm of each gradient. `statistics`
    says whether shared normalisation statistics move.
    """

    epochs: int = 1
    lr: float | None = None
    momentum: float | None = None
    objective: str = "descend"
    clip: float | None = None
    statistics: bool = True


def unlearning_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """FedOSD's bounded loss, -mean log(1 - p_y/2): zero where nothing is known of the label.

    >>> unlearning_loss(torch.tensor([[0.0, 1e9]]), torch.tensor([0]))
    tensor(-0.)
    """
    known = F.softmax(logits, dim=1).gather(1, labels[:, None])
    return -torch.log1p(-known / 2).mean()


OBJECTIVES: dict[str, Loss] = {
    "descend": F.cross_entropy,
    "ascend": lambda logits, labels: -F.cross_entropy(logits, labels),
    "unlearn": unlearning_loss,
}


def train_shared(job: Job, how: Mapping[str, Any], _extra: Tensors) -> Done:
    """Epochs over the client's samples; sends back all shared tensors as they then are."""
    wish = options_from(SharedTraining, how)
    with shared_model(job, wish.statistics) as parameters:
        loss = run(job, wish, list(parameters.values()))
    return Done(read_tensors(job.model, job.split.shared), {"loss": loss})


def options_from(kind: type[Any], how: Mapping[str, Any]) -> Any:
    """The values of a message as the dataclass that they were made of; others are passed over."""
    known = {spec.name for spec in fields(kind)}
    return kind(**{name: value for name, value in how.items() if name in known})


def run(
    job: Job,
    wish: SharedTraining,
    parameters: list[nn.Parameter],
    after_step: Callable[[], bool] | None = None,
) -> float:
    """SGD on these parameters as wished for; returns the mean of the objective."""
    return run_sgd(
        *(job.model, parameters, job.samples, settings_of(job.training, wish)),
        adjust_gradients=None if wish.clip is None else partial(_clip, parameters, wish.clip),
        loss_of=OBJECTIVES[wish.objective],
        after_step=after_step,
    )


def _clip(parameters: list[nn.Parameter], bound: float) -> None:
    nn.utils.clip_grad_norm_(parameters, bound)


def settings_of(training: LocalTraining, wish: SharedTraining) -> LocalTraining:
    """Ordinary local training with what is wished for in its place; ascent has no weight decay."""
    return replace(
        training,
        epochs=wish.epochs,
        lr=training.lr if wish.lr is None else wish.lr,
        momentum=training.momentum if wish.momentum is None else wish.momentum,
        weight_decay=training.weight_decay if wish.objective == "descend" else 0.0,
    )


@contextmanager
def shared_model(job: Job, statistics: bool = True) -> Iterator[dict[str, nn.Parameter]]:
    """The job's model with both parts, ready to train; gives the shared parameters by name.

    Only those have gradients within the block.
    """
    load_tensors(job.model, job.shared, job.split.beside_shared(job.personal))
    shared = set(job.split.shared)
    named = dict(job.model.named_parameters())
    trained = {name: p for name, p in named.items() if name in shared and p.requires_grad}
    set_modes(job.model, shared, statistics)
    with frozen([p for name, p in named.items() if name not in trained]):
        yield trained


def set_modes(model: nn.Module, shared: set[str], statistics: bool) -> None:
    """Training mode, but eval for what is personal, and for all statistics that must not move.

    Each module is judged by its own tensors alone: what a child of it does is the child's affair.
    """
    model.train()
    state = model.state_dict().keys()
    for path, module in model.named_modules():
        tensors = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
        # Buffers that no state dict holds are constants, neither shared nor personal.
        names = {f"{path}.{name}" if path else name for name, _ in tensors} & state
        keeps_statistics = any(True for _ in module.named_buffers(recurse=False))
        if not names <= shared or (keeps_statistics and not statistics):
            module.training = False
