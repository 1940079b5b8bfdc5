"""The processes of cells, seen from the comparison: their tasks, start, messages and end."""

from __future__ import annotations

import pickle
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pfedul.audit.judge.case import Case
from pfedul.audit.judge.rules import Verdict
from pfedul.base.tensors import Tensors
from pfedul.clusters.layout import Clusters
from pfedul.compare.cells import CellResult
from pfedul.engine import available_cores
from pfedul.engine.child import Child, fork_child
from pfedul.protocol import OnStage
from pfedul.settings import Settings
from pfedul.unlearn.options import ForgetOptions


@dataclass(frozen=True, eq=False)
class Common:
    """What all cells of a comparison have in common: the bench, and what cells are judged by.

    `requests` are the targets of each removal, which follow one another. `bench` is pickled apart:
    it may hold functions of the user's script. `case` has the untouched run as its candidate.
    """

    folder: Path
    requests: tuple[tuple[str, ...], ...]
    bench: bytes
    case: Case
    held_out: tuple[Verdict, ...]

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(target for request in self.requests for target in request)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A run to branch from. `stale` are the personal tensors that the targets would keep.

    `shared_accuracy` is that of the shared model alone, where it can be measured. `notes` say how
    it was trained where it is not the run that the comparison is about.
    """

    run: Path
    settings: Settings
    stale: Mapping[str, Tensors]
    clusters: Clusters
    shared_accuracy: float | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class CellTask:
    """One cell to work on; `options` have the budget filled in."""

    key: str
    label: str
    options: ForgetOptions
    checkpoint: Checkpoint
    common: Common

    @property
    def folder(self) -> Path:
        return self.common.folder / self.key


class Children:
    """The running processes. `stop` ends them, and any that is started later."""

    def __init__(self) -> None:
        self._alive: set[Child] = set()
        self._lock = threading.Lock()
        self._stopping = False

    def add(self, child: Child) -> None:
        with self._lock:
            self._alive.add(child)
            if self._stopping:
                child.process.kill()

    def discard(self, child: Child) -> None:
        with self._lock:
            self._alive.discard(child)

    def stop(self) -> None:
        with self._lock:
            self._stopping = True
            for child in self._alive:
                child.process.kill()


@contextmanager
def threads_for(children: Children, workers: int | None) -> Iterator[ThreadPoolExecutor]:
    """Threads that wait for the processes of cells, by default one per core.

    An interrupt ends all processes; each has noted how far it was.
    """
    pool = ThreadPoolExecutor(workers or available_cores())
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        children.stop()
        raise
    finally:
        pool.shutdown()


def in_process(children: Children, task: CellTask, on_stage: OnStage) -> CellResult:
    """Run a cell in its own process; whatever ends it is a result."""
    with tempfile.TemporaryFile() as log, child_of(children, task, log) as child:
        result = listen(child, on_stage)
        code = child.process.wait()
        log.seek(0)
        return result if result is not None else {"failure": _why(code, log.read())}


@contextmanager
def child_of(children: Children, task: CellTask, log: IO[bytes]) -> Iterator[Child]:
    """A process at work on the task, one of the children while it lives."""
    child = fork_child("pfedul.compare.worker", output=log)
    children.add(child)
    try:
        with suppress(OSError):  # it has died; its exit code says so
            # Pickled here: `send` would put tensors into memory that this process must serve.
            child.line.send_bytes(pickle.dumps(task))
        yield child
    finally:
        child.end()
        children.discard(child)


def listen(child: Child, on_stage: OnStage) -> CellResult | None:
    """The result that a process sends last; before that it sends its stages."""
    result: CellResult | None = None
    while result is None:
        try:
            message = child.line.recv()
        except (EOFError, OSError):  # it has ended
            break
        if isinstance(message, dict):
            result = message
        else:
            on_stage(*message)
    return result


def _why(code: int, errors: bytes) -> str:
    lines = errors.decode(errors="replace").strip().splitlines()
    last = f": {lines[-1]}" if lines else ""
    return f"The process of this cell ended with code {code}{last}."
