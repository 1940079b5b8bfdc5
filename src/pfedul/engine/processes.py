"""The engine with one long-lived worker process per core, one thread each.

Model and data are loaded once per worker; shared tensors and replies pass
through nameless shared memory. A worker that dies is replaced and its client's
work done again: tasks are pure, so the run ends the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import connection as mp_connection

import cloudpickle
import torch

from pfedul.base.registry import registered_entries, restore_entries
from pfedul.base.tensors import Tensors
from pfedul.engine.child import Child, fork_child
from pfedul.engine.messages import Failure, Setup, WorkerOrder, detach_data, open_answer
from pfedul.engine.sharedbuffer import SharedBuffer
from pfedul.errors import PfedulError, TransientError
from pfedul.protocol import LocatePersonal, Reply, Task, Workbench

BUFFERS_PER_WORKER = 2
"""One that the server reads while the worker fills the other."""

ATTEMPTS = 3
"""How often a client's work is tried before its workers' deaths are taken for its fault."""


@dataclass
class Worker:
    """A process, and its buffers, of which `free` hold no unread answer."""

    child: Child
    buffers: list[SharedBuffer]
    free: list[int] = field(default_factory=lambda: list(range(BUFFERS_PER_WORKER)))
    busy_with: WorkerOrder | None = None


@dataclass(frozen=True)
class ReadyReply:
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
        self._setup = setup_of(bench, self._data)
        self._wanted = workers
        self._workers: list[Worker] = []
        self._last_exit: int | None = None

    def run(
        self, task: Task, clients: Sequence[str], shared: Tensors, locate_personal: LocatePersonal
    ) -> Generator[Reply, None, None]:
        """Give out the work in order, hand the replies back in order."""
        layout = self._shared.write(shared)
        waiting = deque(
            WorkerOrder(task, client, layout, locate_personal(client), 0) for client in clients
        )
        attempts = dict.fromkeys(clients, 0)
        done: dict[str, ReadyReply] = {}
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
            self._reset()

    def _reset(self) -> None:
        """After a run that was left half-way: end its busy workers and free all buffers."""
        for worker in [worker for worker in self._workers if worker.busy_with is not None]:
            self._end_worker(worker)
        for worker in self._workers:
            worker.free = list(range(BUFFERS_PER_WORKER))

    def _give_out(self, waiting: deque[WorkerOrder], attempts: dict[str, int]) -> None:
        """An order to each worker that is idle and has room for the answer; starts missing ones."""
        while len(self._workers) < self._wanted:
            self._workers.append(self._start_worker())
        for worker in list(self._workers):
            if not waiting or worker.busy_with is not None or not worker.free:
                continue
            order = replace(waiting.popleft(), buffer=worker.free.pop(0))
            attempts[order.client] += 1
            if attempts[order.client] > ATTEMPTS:
                raise TransientError(_explain_deaths(order.client, self._last_exit))
            worker.busy_with = order
            try:
                worker.child.line.send(order)
            except OSError:
                self._drop_dead(worker, order, waiting)

    def _collect(self, waiting: deque[WorkerOrder], done: dict[str, ReadyReply]) -> None:
        """Wait until at least one worker answers or dies; nobody at work is for `_give_out`."""
        busy = {w.child.line: (w, w.busy_with) for w in self._workers if w.busy_with is not None}
        for line in mp_connection.wait(list(busy)) if busy else ():
            worker, order = busy[line]  # type: ignore[index]
            try:
                message = worker.child.line.recv()
            except (EOFError, OSError):
                self._drop_dead(worker, order, waiting)
                continue
            if isinstance(message, Failure):
                raise as_error(message)
            worker.busy_with = None
            # Opened at once: the views hold the memory even if the worker dies before that is read.
            reply = open_answer(message, worker.buffers[order.buffer])
            done[order.client] = ReadyReply(reply, worker, order.buffer)

    def _drop_dead(self, worker: Worker, order: WorkerOrder, waiting: deque[WorkerOrder]) -> None:
        """Remove a dead worker; its order is the next to be given out."""
        waiting.appendleft(order)
        self._end_worker(worker)

    def _start_worker(self) -> Worker:
        buffers = [SharedBuffer() for _ in range(BUFFERS_PER_WORKER)]
        inherited = [buffer.descriptor for buffer in (self._data, self._shared, *buffers)]
        worker = Worker(fork_child("pfedul.engine.worker", inherited), buffers)
        with suppress(OSError):  # it died at once; its first order will find out
            worker.child.line.send(self._setup)
        return worker

    def _end_worker(self, worker: Worker) -> None:
        self._workers.remove(worker)
        self._last_exit = worker.child.end()
        for buffer in worker.buffers:
            buffer.close()

    def close(self) -> None:
        """End the workers; their memory goes with them."""
        for worker in list(self._workers):
            self._end_worker(worker)
        self._data.close()
        self._shared.close()


def setup_of(bench: Workbench, data: SharedBuffer) -> Setup:
    """The first message to workers; the tensors of the clients' data go into the buffer."""
    skeleton, layout = detach_data(dict(bench.data), data)
    pickled = pickle_bench(replace(bench, data=skeleton))
    return Setup(pickled, layout, torch.get_default_dtype())


def pickle_bench(bench: Workbench) -> bytes:
    """The bench as it travels to another process, functions of the user's script included."""
    try:
        return bytes(cloudpickle.dumps((bench, registered_entries())))
    except Exception as error:
        raise PfedulError(
            f"The model or the data cannot be sent to worker processes ({error}); "
            "use the engine 'inline'."
        ) from error


def unpickle_bench(pickled: bytes) -> Workbench:
    """The bench again, in a process that then knows what was registered at run time."""
    bench, entries = cloudpickle.loads(pickled)
    restore_entries(entries)
    result: Workbench = bench
    return result


def _explain_deaths(client: str, code: int | None) -> str:
    cause = "killed: is there enough memory?" if code in {-9, 137} else f"exit code {code}"
    return (
        f"The work for {client} ended its worker process {ATTEMPTS} times ({cause}); "
        "try fewer --workers, or --engine inline to see the cause."
    )


def as_error(failure: Failure) -> Exception:
    """A failure at a worker as the error to raise here."""
    if failure.mistake is not None:
        return PfedulError(failure.mistake)
    return ClientFailure(f"{failure.what} failed in a worker process:\n{failure.trace}")
