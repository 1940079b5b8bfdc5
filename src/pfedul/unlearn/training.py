"""Training of the shared tensors alone, with the personal part frozen.

This is how every rival method works on a personalised federation (Table 3 of the paper):
gradients pass through the personal part, but only shared parameters are updated. Modules with
personal tensors are in eval mode, so their statistics do not change. With Ditto the shared
tensors are a whole model, and the local one is not used. Further helpers of several methods follow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
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
from pfedul.protocol import ClientResult
from pfedul.split import is_normalisation
from pfedul.tasks.base import LearningTask
from pfedul.unlearn.context import Context


@dataclass(frozen=True)
class SharedTraining:
    """How shared tensors are trained; None means as in ordinary rounds.

    `objective`: one of `OBJECTIVES`. `clip` bounds the norm of each gradient. `statistics`
    says whether shared normalisation statistics move. With `parts` the rate follows a cosine over
    so many rounds, of which this is number `part`. `by_batch`: personal normalisation uses the
    statistics of each batch, as its own do not fit shared tensors that were changed.
    """

    epochs: int = 1
    lr: float | None = None
    momentum: float | None = None
    objective: str = "descend"
    clip: float | None = None
    statistics: bool = True
    part: int = 1
    parts: int = 0
    by_batch: bool = False


def unlearning_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """FedOSD's bounded loss, -mean log(1 - p_y/2): zero where the label has probability zero.

    >>> unlearning_loss(torch.tensor([[0.0, 1e9]]), torch.tensor([0]))
    tensor(-0.)
    """
    known = F.softmax(logits, dim=1).gather(1, labels[:, None])
    return -torch.log1p(-known / 2).mean()


def bounded_loss(task: LearningTask) -> Loss:
    """The same for any task: exp(-loss) takes the place of the probability."""
    if task.classes:
        return unlearning_loss
    return lambda output, labels: (
        -torch.log1p(-torch.exp(-task.loss(output, labels, reduction="none")) / 2).mean()
    )


OBJECTIVES: dict[str, Callable[[LearningTask], Loss]] = {
    "descend": lambda task: task.loss,
    "ascend": lambda task: lambda output, labels: -task.loss(output, labels),
    "unlearn": bounded_loss,
}


def train_shared(job: Job, how: Mapping[str, Any], _extra: Tensors) -> ClientResult:
    """Epochs over the client's samples; sends back all shared tensors as they then are."""
    options = options_from(SharedTraining, how)
    with shared_model(job, options.statistics, options.by_batch) as parameters:
        loss = run(job, options, list(parameters.values()))
    return ClientResult(read_tensors(job.model, job.split.shared), {"loss": loss})


def options_from(kind: type[Any], how: Mapping[str, Any]) -> Any:
    """The dataclass with the values of a message; unknown values are ignored."""
    known = {spec.name for spec in fields(kind)}
    return kind(**{name: value for name, value in how.items() if name in known})


def run(
    job: Job,
    options: SharedTraining,
    parameters: list[nn.Parameter],
    after_step: Callable[[], bool] | None = None,
) -> float:
    """SGD on these parameters; returns the mean of the objective."""
    return run_sgd(
        job.model,
        parameters,
        job.samples,
        settings_of(job.training, options),
        adjust_gradients=None if options.clip is None else partial(_clip, parameters, options.clip),
        loss_of=OBJECTIVES[options.objective](job.training.task),
        after_step=after_step,
    )


def _clip(parameters: list[nn.Parameter], bound: float) -> None:
    nn.utils.clip_grad_norm_(parameters, bound)


def settings_of(training: LocalTraining, options: SharedTraining) -> LocalTraining:
    """Ordinary local training with these options applied; ascent has no weight decay."""
    return replace(
        training,
        epochs=options.epochs,
        lr=training.lr if options.lr is None else options.lr,
        momentum=training.momentum if options.momentum is None else options.momentum,
        weight_decay=training.weight_decay if options.objective == "descend" else 0.0,
        cosine=options.parts > 0,
        part=options.part,
        parts=max(1, options.parts),
    )


@contextmanager
def shared_model(
    job: Job, statistics: bool = True, by_batch: bool = False
) -> Iterator[dict[str, nn.Parameter]]:
    """The job's model with both parts, ready to train; gives the shared parameters by name.

    Only those have gradients within the block.
    """
    load_tensors(job.model, job.shared, job.split.beside_shared(job.personal))
    shared = set(job.split.shared)
    named = dict(job.model.named_parameters())
    trained = {name: p for name, p in named.items() if name in shared and p.requires_grad}
    set_modes(job.model, shared, statistics, by_batch)
    with frozen([p for name, p in named.items() if name not in trained]):
        yield trained


def set_modes(model: nn.Module, shared: set[str], statistics: bool, by_batch: bool = False) -> None:
    """Training mode, but eval mode for personal modules and for statistics that must not change.

    Only a module's direct tensors decide its mode. Personal normalisation may go `by_batch`.
    """
    model.train()
    state = model.state_dict().keys()
    for path, module in model.named_modules():
        tensors = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
        # Buffers that no state dict holds are constants, neither shared nor personal.
        names = {f"{path}.{name}" if path else name for name, _ in tensors} & state
        keeps_statistics = any(True for _ in module.named_buffers(recurse=False))
        personal = not names <= shared and not (by_batch and is_normalisation(module))
        if personal or (keeps_statistics and not statistics):
            module.training = False


TRAIN_SHARED = {"train-shared": train_shared}
"""The client functions of methods that ask for nothing else."""


# At the server


def fine_tuned(
    ctx: Context, shared: Tensors, rounds: int, epochs: int | None = None, cosine: bool = False
) -> Tensors:
    """Rounds over the remaining clients; `epochs` default to the local epochs of training.

    With `cosine` the rate falls to zero over all rounds, and personal normalisation goes by batch.
    """
    usual = SharedTraining(
        epochs or ctx.settings.local_epochs, parts=rounds if cosine else 0, by_batch=cosine
    )

    def step(number: int, before: Tensors) -> Tensors:
        return ctx.mean("train-shared", ctx.remaining, before, replace(usual, part=number))

    return ctx.steps("fine-tuning", rounds, shared, step)


SCALES = ("same", "tensor")


def with_noise(ctx: Context, shared: Tensors, sigma: float, scale: str = "same") -> Tensors:
    """Add N(0, sigma^2) to every trained shared parameter.

    Frozen parameters carry no client information. A tied tensor gets the same noise under all its
    names. With the scale "tensor", sigma is in units of each tensor's own standard deviation.
    """
    if not sigma:
        return shared
    source = ctx.generator("noise")
    noisy = dict(shared)
    for name in ctx.trained:
        tensor = shared[name].to(torch.float64)
        unit = float(tensor.std(correction=0)) if scale == "tensor" else 1.0
        noise = torch.randn(tensor.shape, generator=source, dtype=torch.float64, device="cpu")
        noisy[name] = (tensor + sigma * unit * noise).to(shared[name].dtype)
    return ctx.tied(noisy)


def weight_matrices(model: nn.Module, trained: Collection[str]) -> dict[str, list[str]]:
    """Modules, in the order of their definition, with the names of their own weight matrices.

    A bias with two dimensions is not one, nor is the scale of a normalisation.
    """
    matrices: dict[str, list[str]] = {}
    for path, module in model.named_modules():
        prefix = f"{path}." if path else ""
        own = [(prefix + name, p) for name, p in module.named_parameters(recurse=False)]
        names = [n for n, p in own if p.dim() >= 2 and not is_bias(n) and n in trained]
        if names and not is_normalisation(module):
            matrices[path] = names
    return matrices


def is_bias(name: str) -> bool:
    """Whether a parameter is a bias, by the last part of its name as in torch.

    >>> is_bias("one.bias"), is_bias("attention.bias_k"), is_bias("bias.weight")
    (True, True, False)
    """
    return "bias" in name.rpartition(".")[2]
