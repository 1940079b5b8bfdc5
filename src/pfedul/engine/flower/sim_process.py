"""The simulator's process as the engine sees it: starting, speaking to, stopping it."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pfedul.engine.child import Child, start_child
from pfedul.engine.messages import Failure, Setup
from pfedul.engine.processes import as_error
from pfedul.errors import PfedulError
from pfedul.protocol import Reply, Task

START_SECONDS = 300.0
"""Ray may be slow on a busy machine, but one that never gets ready must not hang a run."""

STOP_SECONDS = 20.0
"""After this time the simulator is killed, and Ray's processes with it."""

CLUSTER = "RAY_ADDRESS"
"""The environment variable that names a Ray cluster to use."""


@dataclass(frozen=True)
class Start:
    """The first message to the simulator; `folder` is for whatever Flower and Ray write."""

    setup: Setup
    clients: tuple[str, ...]
    workers: int
    folder: Path


@dataclass(frozen=True)
class Ready:
    """The simulator's first answer: a client's process is up, with model and data."""


@dataclass(frozen=True)
class SimulationJob:
    """A task for clients; `personal` are the files of their personal tensors."""

    task: Task
    clients: tuple[str, ...]
    personal: tuple[Path | None, ...]
    shared: bytes


@dataclass(frozen=True)
class Packed:
    """A reply whose tensors travel as the bytes of tensor files."""

    reply: Reply
    shared: bytes
    personal: bytes


@dataclass(frozen=True)
class Simulator:
    """The process, its folder and what it wrote on its standard error.

    Everything that it starts is a process group under its number.
    """

    child: Child
    folder: Path
    words: IO[bytes]


def start_simulator(data: int) -> Simulator:
    """A new process that inherits the descriptor of the clients' data."""
    folder = Path(tempfile.mkdtemp(prefix="pfedul-", dir=_short_folder()))
    words = (folder / "stderr").open("w+b")
    module, home = "pfedul.engine.flower.sim_server", {"FLWR_HOME": str(folder)}
    child = start_child(module, [data], words, **_ray_environment(), **home)
    return Simulator(child, folder, words)


def _short_folder() -> str:
    """Ray puts sockets into its folder, and the path of a socket has about 100 characters."""
    usual = tempfile.gettempdir()
    return usual if len(usual) <= 30 else "/tmp"


def _ray_environment() -> dict[str, str]:
    """A Ray of our own is for this process alone: whoever can speak to a Ray can run code in it."""
    quiet = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_AUTO_CONNECT": "0",  # else a thread that comes too late starts another Ray
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else a warning about a change to come
    }
    if os.environ.get(CLUSTER):
        return quiet
    loopback = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # "cluster: no", on Linux as well
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    return {**quiet, **loopback, **token}


def stop_simulator(simulator: Simulator) -> None:
    """End it, and with it everything that it started; nothing of it stays on disk."""
    simulator.child.hang_up()
    process = simulator.child.process
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with suppress(ProcessLookupError):  # if it was killed, some of Ray's last for a minute
        os.killpg(process.pid, signal.SIGKILL)
    simulator.words.close()
    shutil.rmtree(simulator.folder, ignore_errors=True)


def await_ready(simulator: Simulator) -> None:
    """Wait, but not for ever, until clients can work."""
    if not simulator.child.line.poll(START_SECONDS):
        raise PfedulError(
            f"Ray gave no worker within {START_SECONDS:.0f} seconds; "
            f"if {CLUSTER} names a cluster, it must be up and all of its CPUs free."
        )
    receive(simulator)


def send(simulator: Simulator, message: Start | SimulationJob) -> None:
    """Say something; an end of the simulator is noticed by `receive`."""
    with suppress(OSError):
        simulator.child.line.send(message)


def receive(simulator: Simulator) -> Any:
    """Its next message; a failure or its end is raised."""
    try:
        message = simulator.child.line.recv()
    except (EOFError, OSError):
        raise PfedulError(_explain_end(simulator)) from None
    if isinstance(message, Failure):
        raise as_error(message)
    return message


def _explain_end(simulator: Simulator) -> str:
    """Why the simulator is gone: how it ended and the last line that it wrote."""
    code = simulator.child.process.wait()
    cause = "killed: is there enough memory?" if code == -9 else f"exit code {code}"
    simulator.words.seek(0)
    lines = simulator.words.read().decode(errors="replace").strip().splitlines()
    last = f" Its last line was: {lines[-1]}" if lines else ""
    return f"Flower's simulation ended by itself ({cause}).{last}"
