"""What a client does: small pure functions of tensors, data, settings and seed.

An engine decides where they run. Each task runs in one thread and has a random
stream of its own, so its result is bit-identical in this process, in a worker and
on another machine of the same kind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn

from pfedul.base.device import CPU, device_of, device_of_model, in_precision, moved, prepare
from pfedul.base.inputs import answer
from pfedul.base.randomness import random_stream
from pfedul.base.tensors import Tensors, load_tensors
from pfedul.base.threads import one_thread
from pfedul.data.samples import ClientData, Samples
from pfedul.errors import PfedulError
from pfedul.personalization import Job, Recalibration
from pfedul.personalization.local import FORWARD_BATCH
from pfedul.personalization.recalibration import renewed_statistics
from pfedul.protocol import MEASURING, MEASURING_CPU, Reply, Task, Workbench, split_extra
from pfedul.records.exact import exact_fisher
from pfedul.tasks.base import LearningTask


@dataclass(frozen=True)
class Scratch:
    """A model that tasks may overwrite, and its buffers that are not in the state dict.

    These buffers are reset before each task, so nothing passes between clients. `data` has the
    clients' samples on the model's device.
    """

    model: nn.Module
    hidden: Tensors
    data: Mapping[str, ClientData]


def scratch_of(bench: Workbench) -> Scratch:
    """A fresh model to work on, where this process computes."""
    device = device_of(bench.device)
    prepare(device)
    model = bench.working_model()
    known = model.state_dict()
    buffers = dict(model.named_buffers())
    hidden = {name: b.clone() for name, b in buffers.items() if name not in known}
    data = bench.data if device.type == "cpu" else MovedData(bench.data, device)
    return Scratch(model, hidden, data)


class MovedData(Mapping[str, ClientData]):
    """Clients' data on a device: each client's is moved once, when it is first asked for."""

    def __init__(self, data: Mapping[str, ClientData], device: torch.device) -> None:
        self._data, self._device = data, device
        self._there: dict[str, ClientData] = {}

    def __getitem__(self, client: str) -> ClientData:
        if client not in self._there:
            self._there[client] = self._data[client].to(self._device)
        return self._there[client]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)


def perform(
    bench: Workbench, scratch: Scratch, task: Task, client: str, shared: Tensors, personal: Tensors
) -> Reply:
    """Do a task for one client, with its cost on the reply."""
    wall, cpu = time.perf_counter(), time.process_time()
    _put_back(scratch)
    bench, device = replace(bench, data=scratch.data), device_of_model(scratch.model)
    job = _job(bench, scratch.model, task, client, moved(shared, device), moved(personal, device))
    seed = bench.seed if task.seed is None else task.seed
    further = (task.purpose,) if task.purpose else ()
    place = (task.action, task.number, client, *further)
    within = in_precision(device, bench.precision)
    with one_thread(), random_stream(seed, *place), within:
        reply = ACTIONS[task.action](bench, task, job)
    reply = replace(reply, shared=moved(reply.shared, CPU), personal=moved(reply.personal, CPU))
    spent = time.perf_counter() - wall, time.process_time() - cpu
    return replace(reply, seconds=spent[0], cpu_seconds=spent[1])


@torch.no_grad()
def _put_back(scratch: Scratch) -> None:
    buffers = dict(scratch.model.named_buffers())
    for name, tensor in scratch.hidden.items():
        buffers[name].copy_(tensor)


def _job(
    bench: Workbench, model: nn.Module, task: Task, client: str, shared: Tensors, personal: Tensors
) -> Job:
    training = bench.training
    if task.epochs is not None:
        training = replace(training, epochs=task.epochs)
    if task.steps is not None:
        training = replace(training, steps=task.steps)
    if task.rate is not None:
        training = replace(training, lr=task.rate)
    return Job(
        client=client,
        model=model,
        split=bench.split,
        head=bench.head,
        shared=shared,
        personal=personal,
        samples=bench.data[client].train,
        training=training,
        options=bench.options,
    )


def fit(bench: Workbench, _task: Task, job: Job) -> Reply:
    """A round's local training."""
    fitted = bench.personalization.fit(job)
    metrics = {"loss": fitted.loss}
    return Reply(job.client, len(job.samples), fitted.shared, fitted.personal, metrics)


def recalibrate(bench: Workbench, task: Task, job: Job) -> Reply:
    """Refit the personal part to shared tensors that were changed; shared ones stay."""
    load_tensors(job.model, job.shared, job.personal)
    how = task.recalibration or Recalibration()
    personal = bench.personalization.recalibrate(job, how)
    metrics = _measured(bench, job, personal) if task.measured else {"loss": 0.0}
    return Reply(job.client, len(job.samples), personal=personal, metrics=metrics)


def statistics(_bench: Workbench, _task: Task, job: Job) -> Reply:
    """Shared normalisation statistics, estimated again on the client's samples."""
    return Reply(job.client, len(job.samples), renewed_statistics(job), metrics={"loss": 0.0})


def _measured(bench: Workbench, job: Job, personal: Tensors) -> dict[str, float]:
    """The figures of `evaluate` with these personal tensors, and the time that they took."""
    wall, cpu = time.perf_counter(), time.process_time()
    load_tensors(job.model, job.shared, personal)
    figures = measure(job.model, bench.data[job.client].test, job.training.task)
    spent = {MEASURING: time.perf_counter() - wall, MEASURING_CPU: time.process_time() - cpu}
    return {**figures, **spent}


def evaluate(bench: Workbench, _task: Task, job: Job) -> Reply:
    """Accuracy and loss of the client's personal model on its own test samples."""
    samples = bench.data[job.client].test
    load_tensors(job.model, job.shared, job.personal)
    return Reply(job.client, len(samples), metrics=measure(job.model, samples, job.training.task))


def exact_fisher_norms(bench: Workbench, _task: Task, job: Job) -> Reply:
    """Eq. 4 on the client's own samples: the L1 norm of each shared layer's exact Fisher."""
    load_tensors(job.model, job.shared, job.personal)
    names = [name for layer in bench.split.layers for name in layer.tensors]
    fisher = exact_fisher(job.model, job.samples, names, task=job.training.task)
    norms = {
        layer.name: sum(
            float(fisher[name].cpu().sum(dtype=torch.float64)) for name in layer.tensors
        )
        for layer in bench.split.layers
    }
    return Reply(job.client, len(job.samples), metrics=norms)


def work(bench: Workbench, task: Task, job: Job) -> Reply:
    """A client function of an unlearning method; the personal part stays as it is."""
    name = task.how["what"]
    if name not in bench.work:
        raise PfedulError(
            f"This client does not know '{name}', which the unlearning method asks for; install "
            "the package of that method at the client as well."
        )
    shared, extra = split_extra(job.shared)
    result = bench.work[name](replace(job, shared=shared), task.how, extra)
    return Reply(job.client, len(job.samples), result.tensors, metrics=result.metrics)


ACTIONS: dict[str, Callable[[Workbench, Task, Job], Reply]] = {
    "fit": fit,
    "recalibrate": recalibrate,
    "statistics": statistics,
    "evaluate": evaluate,
    "exact-fisher": exact_fisher_norms,
    "work": work,
}


@torch.no_grad()
def measure(model: nn.Module, samples: Samples, task: LearningTask) -> dict[str, float]:
    """Accuracy (the mean of the task's hits) and mean loss in eval mode, in large batches."""
    model.eval()
    correct, loss = 0.0, 0.0
    for indices in torch.split(torch.arange(len(samples), device="cpu"), FORWARD_BATCH):
        x, y = samples.batch(indices)
        output = answer(model, x)
        correct += float(task.hits(output, y).sum())
        loss += float(task.loss(output, y, reduction="sum"))
    return {"accuracy": correct / len(samples), "loss": loss / len(samples)}
