"""Federations with several layers to forget in; run as a script, it kills forgetting for real.

    python forgetting_kill.py RUN steps EVERY OPTIONS     SIGKILL before each EVERY-th durable act
    python forgetting_kill.py RUN random COUNT OPTIONS    SIGKILL at COUNT random moments

Each kill is done to a copy of its own, RUN-1, RUN-2, ..., which is left behind
as the kill left it. Forked children open a copy, forget TARGET with the OPTIONS
(JSON) and die; one line is printed for each. The parent has done so once before,
with one thread: what torch imports when it is first used is then there for all.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from helpers.deadly import dying_before
from helpers.killing import in_child
from helpers.toys import QUICK, client_data
from pfedul import Federation

CLIENTS = 4
TARGET = "c1"


class Deep(nn.Module):
    """Three layers under a head, the first with BatchNorm."""

    head_name = "head"

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(4, 6)
        self.norm = nn.BatchNorm1d(6)
        self.two = nn.Linear(6, 6)
        self.three = nn.Linear(6, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.three(self.two(self.norm(self.one(x)).relu()).relu()).relu())


def deep(run: Path, **settings: Any) -> Federation:
    """A federation of four small clients with several shared layers."""
    chosen = {"data": client_data(CLIENTS), "model": Deep, **QUICK, **settings}
    return Federation.create(run, **chosen)


def deep_again(run: Path, **settings: Any) -> Federation:
    return Federation.open(run, **{"data": client_data(CLIENTS), "model": Deep, **settings})


def trained(run: Path, **settings: Any) -> Path:
    """The folder of a federation after all its rounds."""
    with deep(run, **settings) as federation:
        federation.train()
    return run


def copied(run: Path, to: Path) -> Path:
    shutil.copytree(run, to)
    return to


def _forget(run: Path, options: dict[str, Any]) -> None:
    with deep_again(run) as federation:
        federation.forget(TARGET, **options)


def uninterrupted_seconds(run: Path, name: str, options: dict[str, Any]) -> float:
    """How long it takes when nobody kills it."""
    started = time.perf_counter()
    _forget(copied(run, run.with_name(f"{run.name}-{name}")), options)
    return time.perf_counter() - started


def kill_at_steps(run: Path, every: int, options: dict[str, Any]) -> None:
    """Until a child gets through all its steps alive."""
    number = 0
    ended = "killed"
    while ended == "killed":
        number += 1
        copy = copied(run, run.with_name(f"{run.name}-{number}"))
        step = 1 + (number - 1) * every
        ended = in_child(dying_before(step, lambda copy=copy: _forget(copy, options)))
        print(ended, flush=True)


def kill_at_random(run: Path, count: int, options: dict[str, Any]) -> None:
    """Moments spread over the time that forgetting takes when nobody kills it."""
    longest = uninterrupted_seconds(run, "again", options)
    rng = random.Random(0)
    for number in range(1, count + 1):
        copy = copied(run, run.with_name(f"{run.name}-{number}"))
        moment = longest * (number - rng.random()) / count
        print(in_child(lambda copy=copy: _forget(copy, options), moment), flush=True)


if __name__ == "__main__":
    folder, how, times, chosen = sys.argv[1:]
    uninterrupted_seconds(Path(folder), "warm", json.loads(chosen))
    kill = kill_at_steps if how == "steps" else kill_at_random
    kill(Path(folder), int(times), json.loads(chosen))
