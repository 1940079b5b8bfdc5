"""The engine that simulates many clients on Flower's simulation, which runs on Ray.

Flower and Ray live in a process of their own (`sim_server`).
Both change much that is global (loggers, signals, the one Ray of a process) and
neither can be stopped in the middle of a task; a process can.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfedul.base.tensorfile import encode
from pfedul.base.tensors import Tensors
from pfedul.engine.child import start_child
from pfedul.engine.flower import require_flower
from pfedul.engine.messages import Failure, Setup
from pfedul.engine.processes import as_error, setup_of
from pfedul.engine.sharedbuffer import SharedBuffer
from pfedul.errors import PfedulError
from pfedul.protocol import LocatePersonal, Reply, Task, Workbench

START_SECONDS = 300.0
"""Ray may be slow on a busy machine, but one that never gets ready must not hang a run."""

STOP_SECONDS = 20.0
"""After this time the simulator is killed, and Ray's processes with it."""

CLUSTER = "RAY_ADDRESS"
"""The environment variable that names a Ray cluster to use."""

FOLDER = "FLWR_HOME"
"""The environment variable that names the folder for whatever Flower and Ray write."""


@dataclass(frozen=True)
class Start:
    """The first message to the simulator, which answers None when a client's process is up."""

    setup: Setup
    clients: tuple[str, ...]
    workers: int


@dataclass(frozen=True)
class SimulationJob:
    """A task for clients; `personal` are the files of their personal tensors."""

    task: Task
    clients: tuple[str, ...]
    personal: tuple[Path | None, ...]
    shared: bytes


class FlowerSimulationEngine:
    """Starts a simulator when there is work; ends it when a run is abandoned."""

    in_process = False

    def __init__(self, bench: Workbench, workers: int) -> None:
        require_flower(simulation=True)
        self._data = SharedBuffer()
        self._start = Start(setup_of(bench, self._data), tuple(bench.data), workers)
        self._simulator: Simulator | None = None

    def run(
        self, task: Task, clients: Sequence[str], shared: Tensors, locate_personal: LocatePersonal
    ) -> Generator[Reply, None, None]:
        """Hand the whole task over; the simulator hands the replies back in order."""
        files = tuple(locate_personal(client) for client in clients)
        job = SimulationJob(task, tuple(clients), files, encode(shared))
        awaited = len(clients)
        try:
            simulator = self._started()
            simulator.send(job)
            while awaited:
                reply: Reply = simulator.receive()
                awaited -= 1
                yield reply
        finally:
            if awaited:  # Flower cannot take messages back
                self._dismiss()

    def _started(self) -> Simulator:
        if self._simulator is None:
            self._simulator = Simulator(self._data.descriptor)
            self._simulator.send(self._start)
            self._simulator.await_ready()
        return self._simulator

    def _dismiss(self) -> None:
        """End the simulator and everything that it started, busy or not."""
        simulator, self._simulator = self._simulator, None
        if simulator is not None:
            simulator.stop()

    def close(self) -> None:
        """End the simulator; data and messages in Ray's memory go with it."""
        self._dismiss()
        self._data.close()


class Simulator:
    """The simulator's process, its folder and what it wrote on its standard error.

    Everything that it starts is a process group under its number.
    """

    def __init__(self, data: int) -> None:
        """Start it; it inherits the descriptor of the clients' data."""
        self.folder = Path(tempfile.mkdtemp(prefix="pfedul-", dir=_short_folder()))
        self._words = (self.folder / "stderr").open("w+b")
        variables = {**_ray_environment(), FOLDER: str(self.folder)}
        module = "pfedul.engine.flower.sim_server"
        self._child = start_child(module, [data], self._words, **variables)

    def await_ready(self) -> None:
        """Wait, but not for ever, until clients can work."""
        if not self._child.line.poll(START_SECONDS):
            raise PfedulError(
                f"Ray gave no worker within {START_SECONDS:.0f} seconds; "
                f"if {CLUSTER} names a cluster, it must be up and all of its CPUs free."
            )
        self.receive()

    def send(self, message: Start | SimulationJob) -> None:
        """Say something; an end of the simulator is noticed by `receive`."""
        with suppress(OSError):
            self._child.line.send(message)

    def receive(self) -> Any:
        """Its next message; a failure or its end is raised."""
        try:
            message = self._child.line.recv()
        except (EOFError, OSError):
            raise PfedulError(self._explain_end()) from None
        if isinstance(message, Failure):
            raise as_error(message)
        return message

    def _explain_end(self) -> str:
        """Why the simulator is gone: how it ended and the last line that it wrote."""
        code = self._child.process.wait()
        cause = "killed: is there enough memory?" if code == -9 else f"exit code {code}"
        self._words.seek(0)
        lines = self._words.read().decode(errors="replace").strip().splitlines()
        last = f" Its last line was: {lines[-1]}" if lines else ""
        return f"Flower's simulation ended by itself ({cause}).{last}"

    def stop(self) -> None:
        """End it, and with it everything that it started; nothing of it stays on disk."""
        self._child.hang_up()
        process = self._child.process
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        with suppress(ProcessLookupError):  # if it was killed, some of Ray's last for a minute
            os.killpg(process.pid, signal.SIGKILL)
        self._words.close()
        shutil.rmtree(self.folder, ignore_errors=True)


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
