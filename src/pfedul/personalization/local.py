"""Local training, shared by all personalisations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from pfedul.base.inputs import answer
from pfedul.base.tensors import load_tensors, read_tensors
from pfedul.data.samples import Samples, TensorSamples
from pfedul.personalization.augmentation import augmented
from pfedul.personalization.base import Fitted, Job, LocalTraining
from pfedul.personalization.descent import Descent, rates
from pfedul.tasks.base import LearningTask

Loss = Callable[[Tensor, Tensor], Tensor]
"""(output, labels) -> the number to minimise."""

FORWARD_BATCH = 256
"""Batch size where there is no backward pass."""


def fit_everything(job: Job) -> Fitted:
    """Train all tensors together: FedAvg, and all that differs from it only in the split."""
    load_tensors(job.model, job.shared, job.personal)
    job.model.train()
    loss = run_sgd(job.model, trainable(job.model), job.samples, job.training)
    return read_fitted(job, loss)


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that the model's author did not freeze."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def read_fitted(job: Job, loss: float) -> Fitted:
    """The two parts as they now stand in the model."""
    personal = read_tensors(job.model, job.split.personal)
    return Fitted(read_tensors(job.model, job.split.shared), personal, loss)


def run_sgd(
    model: Callable[..., Any],
    parameters: Sequence[Tensor],
    samples: Samples,
    training: LocalTraining,
    epochs: int | None = None,
    adjust_gradients: Callable[[], None] | None = None,
    loss_of: Loss | None = None,
    after_step: Callable[[], bool] | None = None,
) -> float:
    """Minimise a loss of `model` over `samples`; returns its mean over all steps.

    Without `loss_of` it is the loss of the task. The callback `adjust_gradients` runs between the
    backward pass and the step, `after_step` after each step; training ends when it returns True.
    """
    parameters = [parameter for parameter in parameters if parameter.requires_grad]
    epochs = training.epochs if epochs is None else epochs
    if not parameters:  # the model's author froze all of them: there is nothing to train
        return mean_loss(model, samples, training.task)
    loss_of = training.task.loss if loss_of is None else loss_of
    descent = Descent(parameters, training)
    rate = rates(epochs * count_batches(len(samples), training.batch_size), training)
    total: Tensor | float = 0.0
    seen = 0
    for step, indices in enumerate(
        batches(len(samples), training.batch_size, epochs, training.steps)
    ):
        x, y = samples.batch(indices)
        descent.clear()
        loss = loss_of(answer(model, augmented(x, training.augment)), y)
        torch.autograd.backward(loss)
        if adjust_gradients is not None:
            adjust_gradients()
        descent.step(rate(step))
        total = total + loss.detach() * len(y)
        seen += len(y)
        if after_step is not None and after_step():
            break
    return float(total) / max(seen, 1)


@torch.no_grad()
def mean_loss(model: Callable[..., Any], samples: Samples, task: LearningTask) -> float:
    """The mean loss, without training."""
    total: Tensor | float = 0.0
    for indices in torch.split(torch.arange(len(samples), device="cpu"), FORWARD_BATCH):
        x, y = samples.batch(indices)
        total = total + task.loss(answer(model, x), y, reduction="sum")
    return float(total) / len(samples)


def batches(count: int, batch_size: int, epochs: int, steps: int | None) -> Iterator[Tensor]:
    """The batches of all epochs, or the first `steps` of them."""
    every = (batch for _ in range(epochs) for batch in shuffled_batches(count, batch_size))
    return islice(every, steps)


def shuffled_batches(count: int, batch_size: int) -> Iterator[Tensor]:
    """One epoch of indices in random order.

    A last batch of one sample, or of less than a quarter of the others, joins the one before
    it: batch normalisation has no statistics of a single sample and poor ones of a few.

    >>> [len(batch) for batch in shuffled_batches(34, 16)]
    [16, 18]
    """
    batches = list(torch.split(torch.randperm(count, device="cpu"), batch_size))
    if len(batches) > count_batches(count, batch_size):
        batches[-2:] = [torch.cat(batches[-2:])]
    return iter(batches)


def count_batches(count: int, batch_size: int) -> int:
    """How many batches `shuffled_batches` makes of an epoch.

    >>> [count_batches(count, 4) for count in (1, 4, 5, 6, 9)]
    [1, 1, 1, 2, 2]
    """
    whole, rest = divmod(count, batch_size)
    joins = whole > 0 and (rest == 1 or 4 * rest < batch_size)
    return whole + (rest > 0 and not joins)


@contextmanager
def frozen(parameters: list[nn.Parameter]) -> Iterator[None]:
    """Within the block no gradient is computed for these parameters."""
    before = [parameter.requires_grad for parameter in parameters]
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter, wanted in zip(parameters, before, strict=True):
            parameter.requires_grad_(wanted)


def head_parts(model: nn.Module, head: str) -> tuple[nn.Module, list[nn.Parameter]]:
    """The head, and the parameters of everything else."""
    module = model.get_submodule(head)
    own = {id(parameter) for parameter in module.parameters()}
    return module, [p for p in model.parameters() if id(p) not in own]


def train_head(
    model: nn.Module, head: str, samples: Samples, training: LocalTraining, epochs: int
) -> float:
    """Train the head alone, everything before it frozen and in eval mode.

    The frozen body gives the same features in every epoch, so they are computed
    once and cached. That is exact only if the samples are tensors (a Dataset may
    transform at random) and the head is the model's last operation; otherwise nothing
    is cached. Nor is it with augmentation, or if training ends before it has seen that many
    samples.
    """
    module, body = head_parts(model, head)
    parameters = list(module.parameters())
    model.eval()
    with frozen(body):
        worth = training.steps is None or training.steps * training.batch_size >= len(samples)
        same = training.augment == "none"
        features = head_inputs(model, module, samples) if worth and same else None
        module.train()
        if features is None:
            return run_sgd(model, parameters, samples, training, epochs)
        return run_sgd(module, parameters, features, training, epochs)


@torch.no_grad()
def head_inputs(model: nn.Module, head: nn.Module, samples: Samples) -> TensorSamples | None:
    """The head's input for each sample; None if caching it would not be exact."""
    if not isinstance(samples, TensorSamples):
        return None
    seen: list[Tensor] = []
    made: list[Tensor] = []

    def note_input(_module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        if len(inputs) == 1 and not named:  # a head with further inputs cannot be cached
            seen.append(inputs[0].clone())

    hooks = [
        head.register_forward_pre_hook(note_input, with_kwargs=True),
        head.register_forward_hook(lambda _module, _inputs, output: made.append(output)),
    ]
    labels: list[Tensor] = []
    try:
        for indices in torch.split(torch.arange(len(samples), device="cpu"), FORWARD_BATCH):
            x, y = samples.batch(indices)
            logits = answer(model, x)
            labels.append(y)
            if len(seen) != len(labels) or logits is not made[-1]:
                return None
            made.clear()
    finally:
        for hook in hooks:
            hook.remove()
    return TensorSamples(torch.cat(seen), torch.cat(labels))
