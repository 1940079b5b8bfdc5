"""What a client does: small pure functions of tensors, data, settings and seed.

An engine decides where they run. Each task has a thread count of one and a
random stream of its own, so that its result is the same bits in this process,
in a worker and on another machine of the same kind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from pfedul.data.samples import ClientData, Samples
from pfedul.personalization import Job, LocalTraining, Personalization
from pfedul.personalization.local import FORWARD_BATCH
from pfedul.randomness import torch_stream
from pfedul.split import Split
from pfedul.tensors import Tensors, load_tensors


@dataclass(frozen=True)
class Workbench:
    """All that a process needs in order to work for any client.

    `build_model` gives the model as it is before training, the same in every process.
    """

    build_model: Callable[[], nn.Module]
    split: Split
    head: str | None
    personalization: Personalization
    options: Any
    training: LocalTraining
    data: Mapping[str, ClientData]
    seed: int


@dataclass(frozen=True)
class Task:
    """What clients are asked to do in a round."""

    action: str
    round: int


@dataclass(frozen=True)
class Reply:
    """What a client answers: tensors where the task makes any, and figures."""

    client: str
    samples: int
    shared: Tensors = field(default_factory=dict)
    personal: Tensors = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    cpu_seconds: float = 0.0


def perform(
    bench: Workbench,
    model: nn.Module,
    task: Task,
    client: str,
    shared: Tensors,
    personal: Tensors,
) -> Reply:
    """Do a task for one client, with its cost on the reply."""
    wall, cpu = time.perf_counter(), time.process_time()
    with one_thread(), torch_stream(bench.seed, task.action, task.round, client):
        reply = ACTIONS[task.action](bench, model, client, shared, personal)
    spent = time.perf_counter() - wall, time.process_time() - cpu
    return replace(reply, seconds=spent[0], cpu_seconds=spent[1])


def fit(
    bench: Workbench, model: nn.Module, client: str, shared: Tensors, personal: Tensors
) -> Reply:
    """A round's local training."""
    samples = bench.data[client].train
    job = Job(
        *(model, bench.split, bench.head, shared, personal),
        *(samples, bench.training, bench.options),
    )
    fitted = bench.personalization.fit(job)
    return Reply(client, len(samples), fitted.shared, fitted.personal, {"loss": fitted.loss})


def evaluate(
    bench: Workbench, model: nn.Module, client: str, shared: Tensors, personal: Tensors
) -> Reply:
    """Accuracy and loss of the client's personal model on its own test samples."""
    samples = bench.data[client].test
    load_tensors(model, shared, personal)
    return Reply(client, len(samples), metrics=measure(model, samples))


ACTIONS: dict[str, Callable[..., Reply]] = {"fit": fit, "evaluate": evaluate}


@torch.no_grad()
def measure(model: nn.Module, samples: Samples) -> dict[str, float]:
    """Accuracy and mean cross-entropy in eval mode, in large batches."""
    model.eval()
    correct, loss = 0, 0.0
    for indices in torch.split(torch.arange(len(samples)), FORWARD_BATCH):
        x, y = samples.batch(indices)
        logits = model(x)
        correct += int((logits.argmax(1) == y).sum())
        loss += float(F.cross_entropy(logits, y, reduction="sum"))
    return {"accuracy": correct / len(samples), "loss": loss / len(samples)}


@contextmanager
def one_thread() -> Iterator[None]:
    """Within the block torch computes with one thread: the order of sums is then fixed."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
