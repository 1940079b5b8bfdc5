"""Recalibration: a client fits its personal part to shared tensors that were changed under it.

Stage 3 of pFedUL (Eq. 12 and 13, Table 2). The shared tensors arrive once and
stay as they are; all work is local.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from pfedul.base.tensors import Tensors, load_tensors, read_tensors
from pfedul.data.samples import Samples
from pfedul.personalization.base import Job, Recalibration
from pfedul.personalization.local import FORWARD_BATCH, frozen, run_sgd, train_head
from pfedul.split import Split

_STATISTICS = ("running_mean", "running_var")


def keep_nothing(_job: Job, _how: Recalibration) -> Tensors:
    """FedAvg: nothing is personal, so nothing is refitted."""
    return {}


def refit_head(job: Job, how: Recalibration) -> Tensors:
    """FedPer and FedRep: the head, everything else frozen (Eq. 12).

    The model already holds the shared and personal tensors.
    """
    assert job.head is not None
    train_head(job.model, job.head, job.samples, job.training, how.epochs)
    return read_tensors(job.model, job.split.personal)


def refit_norm(job: Job, how: Recalibration) -> Tensors:
    """FedBN: statistics by one pass over the samples; weights and biases only if asked for."""
    reestimate_statistics(job.model, job.samples)
    if how.affine:
        _train_affine(job, how.epochs)
        reestimate_statistics(job.model, job.samples)
    return read_tensors(job.model, job.split.personal)


def _train_affine(job: Job, epochs: int) -> None:
    own = [p for module in norms(job.model) for p in module.parameters()]
    chosen = {id(parameter) for parameter in own}
    others = [p for p in job.model.parameters() if id(p) not in chosen]
    job.model.eval()
    with frozen(others):
        run_sgd(job.model, own, job.samples, job.training, epochs)


def norms(model: nn.Module) -> list[_BatchNorm]:
    """The layers that keep running statistics."""
    return [
        module
        for module in model.modules()
        if isinstance(module, _BatchNorm) and module.track_running_stats
    ]


def shared_statistics(model: nn.Module, split: Split) -> tuple[str, ...]:
    """Names of the running statistics that are shared."""
    owners = {
        name
        for name, module in model.named_modules()
        if isinstance(module, _BatchNorm) and module.track_running_stats
    }
    return tuple(
        name
        for name in split.shared
        if name.rpartition(".")[0] in owners and name.rpartition(".")[2] in _STATISTICS
    )


@torch.no_grad()
def reestimate_statistics(model: nn.Module, samples: Samples) -> None:
    """Running statistics as the samples give them now: one forward pass, nothing is trained."""
    layers = norms(model)
    if len(samples) < 2:  # a single sample has no variance: the old statistics serve it better
        return
    model.eval()
    with _averaging(layers):
        for indices in torch.split(torch.arange(len(samples)), FORWARD_BATCH):
            if len(indices) > 1:
                model(samples.batch(indices)[0])


@contextmanager
def _averaging(layers: list[_BatchNorm]) -> Iterator[None]:
    """Within the block the layers average over batches from a fresh start; counters survive."""
    before = [(layer.momentum, _count(layer)) for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
        layer.train()
    try:
        yield
    finally:
        for layer, (momentum, count) in zip(layers, before, strict=True):
            layer.momentum = momentum
            layer.eval()
            if layer.num_batches_tracked is not None and count is not None:
                layer.num_batches_tracked.fill_(count)


def _count(layer: _BatchNorm) -> int | None:
    return None if layer.num_batches_tracked is None else int(layer.num_batches_tracked)


def prepare(job: Job, how: Recalibration) -> Tensors:
    """Load the job's tensors; re-estimate shared statistics if asked to, and return them."""
    load_tensors(job.model, job.shared, job.personal)
    names = shared_statistics(job.model, job.split) if how.statistics else ()
    if not names:
        return {}
    load_tensors(job.model, job.shared)  # Ditto's shared model, not its local one
    reestimate_statistics(job.model, job.samples)
    fresh = read_tensors(job.model, names)
    load_tensors(job.model, job.personal)
    return fresh
