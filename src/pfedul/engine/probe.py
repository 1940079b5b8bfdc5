"""Whether worker processes pay for a run: three batches of its largest client tell.

A probe is local training that is thrown away. Tasks are pure, so nothing depends on it but where
clients work, and the bits of a run do not depend on that.
"""

from __future__ import annotations

from pfedul.base.tensors import read_tensors
from pfedul.client import perform, scratch_of
from pfedul.protocol import Task, Workbench

SECONDS_TO_START = 2.0
"""What starting workers takes: a process that imports torch, and forks of it."""

SHORT, LONG = 1, 3
"""Batches of a probe; what they do not differ in is the cost of a client without its batches."""

LEAST_ROUNDS = 5
"""A removal or an audit works about as long as so many rounds."""


def processes_pay(bench: Workbench, workers: int, rounds: int) -> bool:
    """Whether so many workers save more in these rounds than it takes to start them.

    Also where the probe fails: workers tell what is wrong with a user's code.
    """
    try:
        seconds = round_seconds(bench)
    except Exception:  # whatever a user's model or data raise
        return True
    return seconds * max(rounds, LEAST_ROUNDS) * (1 - 1 / workers) > SECONDS_TO_START


def round_seconds(bench: Workbench) -> float:
    """About how long a round of all clients takes, one after the other."""
    client = max(bench.data, key=lambda name: len(bench.data[name].train))
    scratch, model = scratch_of(bench), bench.build_model()
    shared = read_tensors(model, bench.split.shared)
    personal = read_tensors(model, bench.split.personal)

    def seconds(steps: int) -> float:
        task = Task("fit", number=0, epochs=LONG, steps=steps)
        return perform(bench, scratch, task, client, shared, personal).seconds

    seconds(SHORT)  # the first task of a process takes longer
    short, long = seconds(SHORT), seconds(LONG)
    batch = max(0.0, long - short) / (LONG - SHORT)
    size = bench.training.batch_size
    batches = sum(-(-len(own.train) // size) for own in bench.data.values())
    return len(bench.data) * short + batches * bench.training.epochs * batch
