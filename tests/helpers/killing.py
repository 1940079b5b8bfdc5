"""Kills a training process, for real, and lets the next one go on; run as a script.

    python killing.py RUN random SEED        SIGKILL at random moments until RUN has all rounds
    python killing.py RUN steps              SIGKILL before every other durable step

The parent warms up; its forked children open RUN, train and die. It
prints one line for each child: how it ended.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from helpers.deadly import dying_before
from helpers.toys import create, reopen

ROUNDS = 4


def in_child(work: Callable[[], None], kill_after: float | None = None) -> str:
    """Run `work` in a forked child; kill it after some seconds, if it lasts that long."""
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return "killed" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"


def train_on(run: Path, every: int) -> None:
    with reopen(run, checkpoint_every=every) as federation:
        federation.train(ROUNDS)


def kill_at_random(run: Path, seed: int) -> None:
    """Windows of life grow until the run is finished, so it always ends."""
    rng = random.Random(seed)
    longest = 0.01
    while True:
        ended = in_child(lambda: train_on(run, rng.choice([1, 2])), rng.uniform(0, longest))
        print(ended, flush=True)
        if ended == "exit 0":
            return
        longest *= 1.06


def kill_at_each_step(run: Path) -> None:
    step = 1
    while True:
        ended = in_child(dying_before(step, lambda: train_on(run, every=2)))
        print(ended, flush=True)
        if ended == "exit 0":
            return
        step += 2  # odd steps of one commit, and as the run goes on even ones of others


def warm_up() -> None:
    """Pay for what torch loads at first use once, not in every child."""
    with tempfile.TemporaryDirectory() as folder, create(Path(folder) / "run") as federation:
        federation.train(1)


if __name__ == "__main__":
    folder, how, *rest = sys.argv[1:]
    warm_up()
    if how == "random":
        kill_at_random(Path(folder), int(rest[0]))
    else:
        kill_at_each_step(Path(folder))
