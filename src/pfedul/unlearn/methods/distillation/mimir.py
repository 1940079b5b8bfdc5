"""Mimir: as ZeroFU, with prompts in the place of label distributions.

IEEE Transactions on Mobile Computing 2025, doi 10.1109/TMC.2025.3570018, after an independent
re-implementation. What makes features a client's own is a prompt, and the generator also looks
for inputs on which outputs differ (L_F + beta L_K). Each client, the target too, fits one factor
for each feature to its own samples when the request comes, so this Mimir is not free of data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from pfedul.base.options import option
from pfedul.base.tensors import Tensors, load_tensors
from pfedul.personalization.base import Job
from pfedul.personalization.local import frozen, run_sgd
from pfedul.protocol import ClientResult
from pfedul.unlearn.base import About, Method, Needs, Result
from pfedul.unlearn.context import Context
from pfedul.unlearn.methods.distillation.lens import lens_on
from pfedul.unlearn.methods.distillation.loop import DistilOptions
from pfedul.unlearn.methods.distillation.run import (
    DISTIL,
    check,
    distilled,
    head_name,
    input_like,
    notes,
    one_input,
)
from pfedul.unlearn.training import SharedTraining, options_from, settings_of


@dataclass(frozen=True)
class MimirOptions(DistilOptions):
    """As `DistilOptions`, and how prompts are fitted."""

    gen_obj: str = option("lf+kd", "What the generator looks for.", choices=("lf", "lf+kd"))
    condition: str = option(
        "prompt", "What makes features a client's own.", choices=("prompt", "none")
    )
    prompt_epochs: int = option(2, "Epochs of fitting a prompt.", at_least=1)
    prompt_lr: float | None = option(None, "Rate of fitting; that of training.", above=0)


def unlearn(ctx: Context, options: MimirOptions) -> Result:
    prompts = fitted_prompts(ctx, options) if options.condition == "prompt" else {}
    return Result(distilled(ctx, options, prompts), notes=notes(ctx, options, prompts))


def fitted_prompts(ctx: Context, options: MimirOptions) -> dict[str, Tensor]:
    """Client -> its prompt: one round; whoever gives no answer has none.

    Each fits it on the model that it is later used with: T_F of a target, T_R of the others.
    """
    head = head_name(ctx, ctx.model())
    how = PromptFitting(head, options.prompt_epochs, options.prompt_lr)
    like = {"prompt": first_prompt(ctx.model(), head, input_like(ctx)[None])}

    def prompts_of(clients: Sequence[str], how: PromptFitting, same_round: bool) -> Tensors:
        replies = ctx.ask("fit-prompt", clients, ctx.shared, how, like=like, same_round=same_round)
        return {reply.client: reply.shared["prompt"].clone() for reply in replies}

    def step(_number: int, _state: Tensors) -> Tensors:
        return {
            **prompts_of(ctx.targets, replace(how, whole=True), same_round=False),
            **prompts_of(ctx.remaining, how, same_round=True),
        }

    return ctx.steps("prompts", 1, {}, step)


# At a client: one factor for each feature under its head, everything else frozen


@dataclass(frozen=True)
class PromptFitting:
    """`head`: under which module; `lr`: that of training unless given.

    `whole`: on the model that the client itself uses, which in Ditto is its local one, and
    not on the shared tensors next to its personal part.
    """

    head: str
    epochs: int = 2
    lr: float | None = None
    whole: bool = False


def fit_prompt(job: Job, how: Mapping[str, Any], _extra: Tensors) -> ClientResult:
    """Sends back the prompt, one factor for each feature."""
    options = options_from(PromptFitting, how)
    own = job.personal if options.whole else job.split.beside_shared(job.personal)
    load_tensors(job.model, job.shared, own)
    job.model.eval()
    with frozen(list(job.model.parameters())):
        prompt = first_prompt(job.model, options.head, one_input(job.samples)[None])
        _fit(job, options, prompt)
    return ClientResult({"prompt": prompt.detach().clone()})


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
def first_prompt(model: nn.Module, head: str, x: Tensor) -> Tensor:
    """All ones, in the shape of the features of one input."""
    with lens_on(model, head) as lens:
        return torch.ones_like(lens.look({}, x).features[0])


def _fit(job: Job, options: PromptFitting, prompt: Tensor) -> None:
    training = settings_of(job.training, SharedTraining(options.epochs, options.lr))
    # Decay would pull factors to 0, where 1 is what changes nothing.
    without_decay = replace(training, weight_decay=0.0)

    def change(_module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (prompted(prompt, inputs[0]), *inputs[1:])

    hook = job.model.get_submodule(options.head).register_forward_pre_hook(change)
    try:
        run_sgd(job.model, [prompt.requires_grad_()], job.samples, without_decay)
    finally:
        hook.remove()


MIMIR = Method(
    name="mimir",
    summary="distil the shared part on generated inputs, with prompts fitted by every client",
    unlearn=unlearn,
    about=About(
        paper="Mimir, IEEE TMC 2025, doi 10.1109/TMC.2025.3570018; after a re-implementation",
        who=(
            "every client once (prompts; nobody with condition=none), then the server; "
            "mode=federated: all remaining clients, who are sent the targets' personal parts and "
            "everybody's prompts"
        ),
        rounds="1 (prompts); and 4 (rounds) with mode=federated",
        avoids="a student drawn at random serves one client only: no other personal part fits it",
    ),
    options=MimirOptions,
    needs=Needs(
        target=True,
        spares_target=lambda options: options.condition == "none",
        local=True,
        classes=True,
    ),
    client={**DISTIL, "fit-prompt": fit_prompt},
    check=lambda ctx, _options: check(ctx, linear_head=False),
)
