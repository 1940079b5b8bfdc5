"""A clock of the tests' own: CPU and wall time that only pass where a test says so."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pfedul import client
from pfedul.personalization.local import count_batches


class Clock:
    """Stands still but for `pass_by`."""

    def __init__(self) -> None:
        self.now = 0.0

    def read(self) -> float:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


def stopped(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """From now on, in this process."""
    clock = Clock()
    for name in ("perf_counter", "process_time"):
        monkeypatch.setattr(time, name, clock.read)
    return clock


def priced(
    monkeypatch: pytest.MonkeyPatch,
    client_seconds: float = 1.0,
    batch_seconds: float = 0.5,
    recalibration: float = 2.0,
    measuring: float = 1.0,
) -> Clock:
    """A clock on which local training, recalibration and measuring take so long."""
    clock, fit, refit, measure = (
        stopped(monkeypatch),
        client.ACTIONS["fit"],
        client.ACTIONS["recalibrate"],
        client.measure,
    )

    def slow_fit(bench: Any, task: Any, job: Any) -> Any:
        batches = job.training.epochs * count_batches(len(job.samples), job.training.batch_size)
        clock.pass_by(client_seconds + batch_seconds * min(batches, task.steps or batches))
        return fit(bench, task, job)

    monkeypatch.setitem(client.ACTIONS, "fit", slow_fit)
    monkeypatch.setitem(client.ACTIONS, "recalibrate", _after(clock, recalibration, refit))
    monkeypatch.setattr(client, "measure", _after(clock, measuring, measure))
    return clock


def _after(clock: Clock, seconds: float, act: Callable[..., Any]) -> Callable[..., Any]:
    def slow(*arguments: Any) -> Any:
        clock.pass_by(seconds)
        return act(*arguments)

    return slow
