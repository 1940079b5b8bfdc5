"""Child processes that end when the process that started them ends.

They are started with `python -m` or forked by a server that was: they never import the user's main
script, so scripts need no `__main__` guard.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO

import torch

from pfedul.engine.forking import Forked, Surroundings, fork


@dataclass(frozen=True, eq=False)
class Child:
    """A process, the line to it, and its lifeline.

    The lifeline is never written to: it closes when this process ends, however it
    ends, and the child then ends at once, even in the middle of a task.
    """

    process: subprocess.Popen[bytes] | Forked
    line: Connection
    lifeline: IO[bytes]

    def hang_up(self) -> None:
        """Close the line and the lifeline."""
        self.line.close()
        self.lifeline.close()

    def end(self) -> int:
        """Kill it unless it has ended; returns its exit code."""
        self.hang_up()
        ended = self.process.poll()
        self.process.kill()
        code = self.process.wait()
        return code if ended is None else ended


def start_child(
    module: str, inherited: Sequence[int] = (), output: IO[bytes] | None = None, **variables: str
) -> Child:
    """Start a module; its arguments are its line, its lifeline and the inherited descriptors.

    `output` takes what it prints; `variables` are added to its environment.
    """

    def start(descriptors: list[int]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", module, *map(str, descriptors)],
            pass_fds=descriptors,
            env={**environment_for(_path()), **variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )

    return _tied(start, inherited)


def fork_child(
    module: str, inherited: Sequence[int] = (), output: IO[bytes] | None = None
) -> Child:
    """The same, at once: forked by a server that has imported torch, where forks are safe."""
    if sys.platform != "linux":
        return start_child(module, inherited, output)
    own_output = [] if output is None else [output.fileno()]
    path = _path()
    surroundings = Surroundings(environment_for(path), path, os.getcwd(), bool(own_output))
    return _tied(lambda given: fork(module, own_output + given, surroundings), inherited)


def _tied(
    start: Callable[[list[int]], subprocess.Popen[bytes] | Forked], inherited: Sequence[int]
) -> Child:
    """The child that `start` makes, given the descriptors of its line, its lifeline and others."""
    ours, theirs = socket.socketpair()
    alive, lifeline = os.pipe()
    process = start([theirs.fileno(), alive, *inherited])
    theirs.close()
    os.close(alive)
    return Child(process, Connection(ours.detach()), os.fdopen(lifeline, "wb"))


def environment_for(path: Sequence[str]) -> dict[str, str]:
    """Children import what is found on the path, and start no threads of their own."""
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(path)}


def _path() -> list[str]:
    """Where this process finds modules, also for one in another folder."""
    return [folder or str(Path.cwd()) for folder in sys.path]


def as_child(end: Callable[[], object] = lambda: os._exit(1)) -> tuple[Connection, list[int]]:
    """To be called in the child: its line to the parent, and the inherited descriptors.

    `end` is called when the parent is gone; it must end this process at once.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to handle
    torch.set_num_threads(1)
    line, lifeline, *inherited = map(int, sys.argv[1:])

    def watch() -> None:
        os.read(lifeline, 1)
        end()

    threading.Thread(target=watch, daemon=True).start()
    return Connection(line), inherited
