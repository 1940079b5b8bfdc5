"""Recalibration: a client refits its personal part to shared tensors that were changed.

Stage 3 of pFedUL (Eq. 12 and 13, Table 2). The shared tensors arrive once and
stay as they are; all work is local.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pfedul.base.inputs import answer
from pfedul.base.tensors import Tensors, load_tensors, read_tensors
from pfedul.data.samples import Samples
from pfedul.personalization.base import Job, LocalTraining, Recalibration
from pfedul.personalization.local import FORWARD_BATCH, frozen, run_sgd, train_head
from pfedul.split import Split

AFFINE_EPOCHS = 2
HEAD_EPOCHS, HEAD_DECAY = 30, 0.01
"""Thorough recalibration of a head: features are computed once, so epochs are cheap."""

_STATISTICS = ("running_mean", "running_var")


def keep_nothing(_job: Job, _how: Recalibration) -> Tensors:
    """FedAvg: nothing is personal, so nothing is refitted."""
    return {}


def refit_head(job: Job, how: Recalibration) -> Tensors:
    """FedPer and FedRep: the head of the model as it is, everything else frozen (Eq. 12)."""
    assert job.head is not None
    plain = replace(job.training, augment="none")
    thorough = replace(plain, epochs=HEAD_EPOCHS, weight_decay=HEAD_DECAY, cosine=True)
    training = how.training(plain, thorough)
    train_head(job.model, job.head, job.samples, training, training.epochs)
    return read_tensors(job.model, job.split.personal)


def refit_norm(job: Job, how: Recalibration) -> Tensors:
    """FedBN: statistics by one pass over the samples; weights and biases only with `affine`."""
    reestimate_statistics(job.model, job.samples)
    if how.affine:
        thorough = replace(job.training, epochs=AFFINE_EPOCHS, cosine=True)
        _train_affine(job, how.training(job.training, thorough))
        reestimate_statistics(job.model, job.samples)
    return read_tensors(job.model, job.split.personal)


def _train_affine(job: Job, training: LocalTraining) -> None:
    train_alone(job, [p for module in norms(job.model) for p in module.parameters()], training)


def train_alone(job: Job, own: Sequence[nn.Parameter], training: LocalTraining) -> None:
    """Train these parameters in eval mode, everything else frozen."""
    chosen = {id(parameter) for parameter in own}
    others = [p for p in job.model.parameters() if id(p) not in chosen]
    job.model.eval()
    with frozen(others):
        run_sgd(job.model, own, job.samples, training)


def norms(model: nn.Module) -> list[_BatchNorm]:
    """The layers that keep running statistics."""
    return [
        module
        for module in model.modules()
        if isinstance(module, _BatchNorm) and module.track_running_stats
    ]


def shared_statistics(model: nn.Module, split: Split) -> tuple[str, ...]:
    """Names of the running statistics that are shared."""
    layers = norms(model)
    owners = [name for name, module in model.named_modules() if module in layers]
    statistics = {f"{owner}.{name}".lstrip(".") for owner in owners for name in _STATISTICS}
    return tuple(name for name in split.shared if name in statistics)


@torch.no_grad()
def reestimate_statistics(model: nn.Module, samples: Samples) -> None:
    """Estimate running statistics again from the samples: one forward pass, nothing is trained.

    Batches are as equal as possible, and their moments are pooled: a layer gets the mean and
    the variance of all its inputs, whichever batch they were in.
    """
    if len(samples) < 2:  # a single sample has no variance, so the old statistics stay
        return
    layers = norms(model)
    model.eval()
    with _collecting(layers) as moments:
        count = math.ceil(len(samples) / FORWARD_BATCH)
        for indices in torch.tensor_split(torch.arange(len(samples), device="cpu"), count):
            answer(model, samples.batch(indices)[0])
    for layer, parts in moments.items():
        mean, variance = _pooled(parts)
        load_tensors(layer, {"running_mean": mean, "running_var": variance})


Moments = tuple[int, Tensor, Tensor]
"""Count, mean and unbiased variance of a layer's inputs in one batch."""


@contextmanager
def _collecting(layers: list[_BatchNorm]) -> Iterator[dict[_BatchNorm, list[Moments]]]:
    """Within the block layers normalise by batch and note its moments; counters are restored."""
    moments: dict[_BatchNorm, list[Moments]] = {}

    def note(layer: _BatchNorm, inputs: tuple[Tensor, ...], _output: Tensor) -> None:
        mean, variance = read_tensors(layer, _STATISTICS).values()
        count = inputs[0].numel() // layer.num_features
        moments.setdefault(layer, []).append((count, mean, variance))

    before = [(layer.momentum, _count(layer)) for layer in layers]
    hooks = [layer.register_forward_hook(note) for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = 1.0  # running statistics are those of the last batch
        layer.train()
    try:
        yield moments
    finally:
        for layer, hook, (momentum, count) in zip(layers, hooks, before, strict=True):
            hook.remove()
            layer.momentum = momentum
            layer.eval()
            if layer.num_batches_tracked is not None and count is not None:
                layer.num_batches_tracked.fill_(count)


def _pooled(parts: list[Moments]) -> tuple[Tensor, Tensor]:
    """Mean and unbiased variance of all batches taken together, in double precision.

    >>> halves = [(2, torch.tensor([1.0]), torch.tensor([2.0]))] * 2
    >>> [value.item() for value in _pooled(halves)]  # of 0, 2, 0, 2
    [1.0, 1.3333333333333333]
    """
    means = torch.stack([mean.cpu() for _, mean, _ in parts]).double()
    counts = means.new_tensor([[count] for count, _, _ in parts])
    variances = torch.stack([variance.cpu() for _, _, variance in parts]).double()
    mean = (counts * means).sum(0) / counts.sum()
    squares = (counts - 1) * variances + counts * (means - mean) ** 2
    return mean, squares.sum(0) / (counts.sum() - 1)


def _count(layer: _BatchNorm) -> int | None:
    return None if layer.num_batches_tracked is None else int(layer.num_batches_tracked)


def renewed_statistics(job: Job) -> Tensors:
    """Shared normalisation statistics, if there are any, as the client's samples give them."""
    names = shared_statistics(job.model, job.split)
    load_tensors(job.model, job.personal, job.shared)  # Ditto: the shared model, not the local one
    if names:
        reestimate_statistics(job.model, job.samples)
    return read_tensors(job.model, names)
