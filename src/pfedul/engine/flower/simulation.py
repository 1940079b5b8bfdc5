"""The engine that simulates many clients on Flower's simulation, which runs on Ray.

Flower and Ray live in a process of their own (`sim_server`).
Both change much that is global (loggers, signals, the one Ray of a process) and
neither can be stopped in the middle of a task; a process can.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace

import torch

from pfedul.base.tensorfile import decode, encode
from pfedul.base.tensors import Tensors
from pfedul.engine.flower import require_flower
from pfedul.engine.flower.sim_process import (
    Packed,
    SimulationJob,
    Simulator,
    Start,
    await_ready,
    receive,
    send,
    start_simulator,
    stop_simulator,
)
from pfedul.engine.messages import Setup, detach_data
from pfedul.engine.processes import pickle_bench
from pfedul.engine.sharedbuffer import SharedBuffer
from pfedul.protocol import LocatePersonal, Reply, Task, Workbench


class FlowerSimulationEngine:
    """Starts a simulator when there is work; ends it when a run is abandoned."""

    in_process = False

    def __init__(self, bench: Workbench, workers: int) -> None:
        require_flower(simulation=True)
        self._data = SharedBuffer()
        skeleton, layout = detach_data(dict(bench.data), self._data)
        pickled = pickle_bench(replace(bench, data=skeleton))
        self._setup = Setup(pickled, layout, torch.get_default_dtype())
        self._clients, self._workers = tuple(bench.data), workers
        self._simulator: Simulator | None = None

    def run(
        self,
        task: Task,
        clients: Sequence[str],
        shared: Tensors,
        locate_personal: LocatePersonal,
    ) -> Generator[Reply, None, None]:
        """Hand the whole task over; the simulator hands the replies back in order."""
        files = tuple(locate_personal(client) for client in clients)
        job = SimulationJob(task, tuple(clients), files, encode(shared))
        awaited = len(clients)
        try:
            simulator = self._started()
            send(simulator, job)
            while awaited:
                packed: Packed = receive(simulator)
                awaited -= 1
                yield _opened(packed)
        finally:
            if awaited:  # Flower cannot take messages back
                self._dismiss()

    def _started(self) -> Simulator:
        if self._simulator is None:
            self._simulator = start_simulator(self._data.descriptor)
            start = Start(self._setup, self._clients, self._workers, self._simulator.folder)
            send(self._simulator, start)
            await_ready(self._simulator)
        return self._simulator

    def _dismiss(self) -> None:
        """End the simulator and everything that it started, busy or not."""
        simulator, self._simulator = self._simulator, None
        if simulator is not None:
            stop_simulator(simulator)

    def close(self) -> None:
        """End the simulator; data and messages in Ray's memory go with it."""
        self._dismiss()
        self._data.close()


def _opened(packed: Packed) -> Reply:
    shared, personal = decode(packed.shared), decode(packed.personal)
    return replace(packed.reply, shared=shared, personal=personal)
