"""A client's prompt, fitted after training: one factor for each feature under its head.

Mimir trains prompts with the federation. Here a run has none, so that everything
else is frozen and the factors are fitted to the client's own samples, from all ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from pfedul.base.tensors import Tensors, load_tensors
from pfedul.personalization.base import Job
from pfedul.personalization.local import frozen, run_sgd
from pfedul.protocol import Done
from pfedul.unlearn.distillation.lens import lens_on
from pfedul.unlearn.training import SharedTraining, options_from, settings_of


@dataclass(frozen=True)
class PromptFitting:
    """`head`: under which module; `lr`: that of training unless given.

    `whole`: on the model that the client itself uses, which in Ditto is its local one, and
    not on the shared tensors beside its personal part.
    """

    head: str
    epochs: int = 2
    lr: float | None = None
    whole: bool = False


def fit_prompt(job: Job, how: Mapping[str, Any], _extra: Tensors) -> Done:
    """Sends back the prompt, one factor for each feature."""
    wish = options_from(PromptFitting, how)
    own = job.personal if wish.whole else job.split.beside_shared(job.personal)
    load_tensors(job.model, job.shared, own)
    job.model.eval()
    with frozen(list(job.model.parameters())):
        prompt = _features_of_one(job, wish.head)
        _fit(job, wish, prompt)
    return Done({"prompt": prompt.detach().clone()})


def prompted(prompt: Tensor, features: Tensor) -> Tensor:
    """Mimir's f_P: the factors times the features, at the length that these had.

    >>> prompted(torch.tensor([0.0, 1.0]), torch.tensor([[3.0, 4.0]]))
    tensor([[0., 5.]])
    """
    changed = prompt * features
    length, before = (torch.linalg.vector_norm(t.flatten(1), dim=1) for t in (changed, features))
    scale: Tensor = before / length.clamp_min(torch.finfo(length.dtype).tiny)
    return changed * scale.view(-1, *[1] * (features.ndim - 1))


@torch.no_grad()
def _features_of_one(job: Job, head: str) -> Tensor:
    """All ones, in the shape of the features of one sample."""
    x, _ = job.samples.batch(torch.zeros(1, dtype=torch.int64))
    with lens_on(job.model, head) as lens:
        return torch.ones_like(lens.look({}, x).features[0])


def _fit(job: Job, wish: PromptFitting, prompt: Tensor) -> None:
    training = settings_of(job.training, SharedTraining(wish.epochs, wish.lr))
    # Decay would pull factors to 0, where 1 is what changes nothing.
    without_decay = replace(training, weight_decay=0.0)

    def change(_module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (prompted(prompt, inputs[0]), *inputs[1:])

    hook = job.model.get_submodule(wish.head).register_forward_pre_hook(change)
    try:
        run_sgd(job.model, [prompt.requires_grad_()], job.samples, without_decay)
    finally:
        hook.remove()
