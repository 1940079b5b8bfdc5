"""Rounds with updates that a test makes up, recorded as real ones are."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pfedul.aggregation import AGGREGATIONS
from pfedul.base.tensors import Tensors
from pfedul.protocol import Accepted, Reply, RoundResult
from pfedul.records.base import Keeping
from pfedul.records.recording import RoundRecorder
from pfedul.run.run import Run
from pfedul.store.paths import SHARED_FILE
from pfedul.store.tables import round_rows

Craft = Callable[[str, str, Tensor], Tensor]
"""(client, name of a tensor, its update as drawn) -> the update that is sent."""


def play_crafted(run: Run, rounds: int, craft: Craft) -> None:
    """Every client sends random updates, the same in every call, changed by `craft`."""
    generator = torch.Generator().manual_seed(1)
    for number in range(1, rounds + 1):
        replies = [_reply(run, client, craft, generator) for client in run.clients]
        _commit(run, number, replies)


def _reply(run: Run, client: str, craft: Craft, generator: torch.Generator) -> Reply:
    shared: Tensors = dict(run.shared)
    for name in run.bench.split.parameters:
        drawn = 0.1 * torch.randn(shared[name].shape, generator=generator)
        shared[name] = shared[name] + craft(client, name, drawn)
    return Reply(client, run.members[client].train_samples, shared, metrics={"loss": 0.0})


def _commit(run: Run, number: int, replies: list[Reply]) -> None:
    keeping = Keeping(run.store, run.settings.recording, run.bench.split)
    recorder = RoundRecorder(keeping, run.settings.records, number, run.shared)
    entry, options = AGGREGATIONS.parse(run.settings.aggregation)
    aggregate = entry.start(options, run.shared)
    weights = run.settings.weighing.weights({reply.client: reply.samples for reply in replies})
    for reply in replies:
        recorder.add(reply)
        aggregate.add(reply.client, reply.shared, weights[reply.client])
    accepted = [Accepted(reply.client, reply.samples, 0.0, 0.0, 0.0) for reply in replies]
    result = RoundResult(number, aggregate.result(), accepted)
    result.shares = {client: aggregate.share(client) for client in weights}
    recorder.finish(result)
    sha256 = run.store.stage(SHARED_FILE, result.shared)
    cost = {"seconds": 0.0, "record_seconds": 0.0}
    run.store.keep(round_rows(result, sha256, cost))
    run.store.commit()
    run.remember(result)
