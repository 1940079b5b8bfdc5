"""The engine with one long-lived worker process per core, one thread each.

Model and data are loaded once per worker; shared tensors and replies pass
through nameless shared memory. A worker that dies is replaced and its client's
work done again: tasks are pure, so the run ends the same.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import connection as mp_connection
from multiprocessing.connection import Connection

import cloudpickle

from pfedul.client import Reply, Task, Workbench
from pfedul.engine.messages import Answer, Failure, Order, Setup, detach_data, open_answer
from pfedul.engine.protocol import LocatePersonal
from pfedul.engine.sharedbuffer import SharedBuffer
from pfedul.errors import PfedulError
from pfedul.tensors import Tensors

BUFFERS_PER_WORKER = 2
"""One that the server reads while the worker fills the other."""

ATTEMPTS = 3
"""How often a client's work is tried before its workers' deaths are taken for its fault."""


@dataclass
class Worker:
    """A process, the line to it, and its buffers that hold no unread answer."""

    process: subprocess.Popen[bytes]
    line: Connection
    buffers: list[SharedBuffer]
    free: list[int] = field(default_factory=lambda: list(range(BUFFERS_PER_WORKER)))
    busy_with: Order | None = None


@dataclass(frozen=True)
class Done:
    """A reply that waits for its turn, in a buffer of the worker that made it."""

    reply: Reply
    worker: Worker
    buffer: int


class ClientFailure(RuntimeError):
    """A client's code raised in a worker: a fault of a model, a dataset or of pfedul itself."""


class ProcessesEngine:
    """Owns the workers and the memory that they share."""

    in_process = False

    def __init__(self, bench: Workbench, workers: int) -> None:
        self._data, self._shared = SharedBuffer(), SharedBuffer()
        skeleton, layout = detach_data(dict(bench.data), self._data)
        self._setup = Setup(_pickled(replace(bench, data=skeleton)), layout)
        self._workers = [self._hire() for _ in range(workers)]

    def run(
        self,
        task: Task,
        clients: Sequence[str],
        shared: Tensors,
        locate_personal: LocatePersonal,
    ) -> Generator[Reply, None, None]:
        """Give out the work in order, hand the replies back in order."""
        layout = self._shared.write(shared)
        waiting = deque(
            Order(task, client, layout, locate_personal(client), 0) for client in clients
        )
        attempts = dict.fromkeys(clients, 0)
        done: dict[str, Done] = {}
        try:
            for client in clients:
                while client not in done:
                    self._give_out(waiting, attempts)
                    self._collect(waiting, done)
                self._give_out(waiting, attempts)
                item = done.pop(client)
                yield item.reply
                item.worker.free.append(item.buffer)
        finally:
            self._clear_desks()

    def _clear_desks(self) -> None:
        """After a run that was left half-way: nobody works on it, no answer waits in a buffer."""
        for index, worker in enumerate(self._workers):
            if worker.busy_with is not None:
                self._dismiss(worker)
                self._workers[index] = self._hire()
            worker.free = list(range(BUFFERS_PER_WORKER))

    def _give_out(self, waiting: deque[Order], attempts: dict[str, int]) -> None:
        """An order to each worker that is idle and has room for the answer."""
        for index, worker in enumerate(self._workers):
            if not waiting or worker.busy_with is not None or not worker.free:
                continue
            order = replace(waiting.popleft(), buffer=worker.free.pop(0))
            attempts[order.client] += 1
            if attempts[order.client] > ATTEMPTS:
                raise PfedulError(_explain_deaths(order.client))
            worker.busy_with = order
            try:
                worker.line.send(order)
            except OSError:
                self._replace(index, waiting)

    def _collect(self, waiting: deque[Order], done: dict[str, Done]) -> None:
        """Wait until at least one worker answers or dies."""
        lines = {worker.line: index for index, worker in enumerate(self._workers)}
        for line in mp_connection.wait([w.line for w in self._workers if w.busy_with]):
            index = lines[line]  # type: ignore[index]
            try:
                message = self._workers[index].line.recv()
            except (EOFError, OSError):
                self._replace(index, waiting)
                continue
            if isinstance(message, Failure):
                raise _as_error(message)
            self._workers[index].busy_with = None
            done[message.reply.client] = _opened(message, self._workers[index])

    def _replace(self, index: int, waiting: deque[Order]) -> None:
        """A new worker in the place of a dead one; what it was doing comes first again."""
        dead = self._workers[index]
        if dead.busy_with is not None:
            waiting.appendleft(dead.busy_with)
        self._dismiss(dead)
        self._workers[index] = self._hire()

    def _hire(self) -> Worker:
        ours, theirs = socket.socketpair()
        buffers = [SharedBuffer() for _ in range(BUFFERS_PER_WORKER)]
        descriptors = [theirs.fileno(), self._data.descriptor, self._shared.descriptor]
        descriptors += [buffer.descriptor for buffer in buffers]
        command = [sys.executable, "-m", "pfedul.engine.worker", *map(str, descriptors)]
        process = subprocess.Popen(
            command, pass_fds=descriptors, env=_environment(), stdin=subprocess.DEVNULL
        )
        theirs.close()
        worker = Worker(process, Connection(ours.detach()), buffers)
        worker.line.send(self._setup)
        return worker

    def _dismiss(self, worker: Worker) -> None:
        worker.line.close()
        worker.process.kill()
        worker.process.wait()
        for buffer in worker.buffers:
            buffer.close()

    def close(self) -> None:
        """End the workers; their memory goes with them."""
        for worker in self._workers:
            self._dismiss(worker)
        self._workers = []
        self._data.close()
        self._shared.close()


def _pickled(bench: Workbench) -> bytes:
    try:
        return bytes(cloudpickle.dumps(bench))
    except Exception as error:
        raise PfedulError(
            f"The model or the data cannot be sent to worker processes ({error}); "
            "use the engine 'inline'."
        ) from error


def _environment() -> dict[str, str]:
    """Workers import what this process can import, and start no threads of their own."""
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _opened(answer: Answer, worker: Worker) -> Done:
    # Opened at once: the views hold the memory even if the worker dies before they are read.
    return Done(open_answer(answer, worker.buffers[answer.buffer]), worker, answer.buffer)


def _explain_deaths(client: str) -> str:
    return (
        f"The work for {client} ended its worker process {ATTEMPTS} times "
        f"(is there enough memory for {BUFFERS_PER_WORKER} models per worker?); "
        "try fewer --workers, or --engine inline to see the cause."
    )


def _as_error(failure: Failure) -> Exception:
    if failure.mistake is not None:
        return PfedulError(failure.mistake)
    return ClientFailure(f"The work for {failure.client} failed:\n{failure.trace}")
