"""The processes of cells, seen from the comparison: started, listened to, ended with it."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import IO, Any

from pfedul.compare.order import Order, Result
from pfedul.engine import available_cores
from pfedul.engine.processes import worker_environment

Child = subprocess.Popen[bytes]
Told = Callable[[dict[str, Any]], None]


class Children:
    """The processes that are at work. Once stopped, none lives on and none is left to begin."""

    def __init__(self) -> None:
        self._alive: set[Child] = set()
        self._lock = threading.Lock()
        self._stopping = False

    def add(self, child: Child) -> None:
        """One that was being started while the others were stopped ends at once."""
        with self._lock:
            self._alive.add(child)
            if self._stopping:
                child.kill()

    def discard(self, child: Child) -> None:
        with self._lock:
            self._alive.discard(child)

    def stop(self) -> None:
        with self._lock:
            self._stopping = True
            for child in self._alive:
                child.kill()


@contextmanager
def threads_for(children: Children, workers: int | None) -> Iterator[ThreadPoolExecutor]:
    """Threads that wait for the processes of cells, as many as there are cores unless told.

    Interrupted, no process outlives us and none is begun; each has noted how far it was.
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


def in_process(children: Children, order: Order, told: Told) -> Result:
    """A cell in a process of its own; whatever ends it is a result."""
    with tempfile.TemporaryFile() as log, child_of(children, log) as child:
        send(child, order)
        result = listened(child, told)
        code = child.wait()
        log.seek(0)
        return result if result is not None else {"failure": _why(code, log.read())}


@contextmanager
def child_of(children: Children, log: IO[bytes]) -> Iterator[Child]:
    """A process that waits for its order, one of the children while it lives."""
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "pfedul.compare.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env=worker_environment(),
    )
    children.add(child)
    try:
        yield child
    finally:
        _end(child)
        children.discard(child)


def _end(child: Child) -> None:
    """Nobody listens to it any more: end it, collect it, close its pipes."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.kill()
    child.wait()
    child.stdout.close()
    with suppress(OSError):  # what was not sent yet goes nowhere
        child.stdin.close()


def listened(child: Child, told: Told) -> Result | None:
    """What a process says last; `told` of what it says on the way."""
    assert child.stdout is not None
    result: Result | None = None
    for text in child.stdout:
        try:
            words = json.loads(text)
        except ValueError:  # half a line of a process that was killed
            continue
        if "result" in words:
            result = words["result"]
        else:
            told(words)
    return result


def send(child: Child, order: Order) -> None:
    """The pipe stays open: its end tells the process that we are gone."""
    assert child.stdin is not None
    data = pickle.dumps(order)
    with suppress(OSError):  # it has died; its exit code says so
        child.stdin.write(len(data).to_bytes(8, "big") + data)
        child.stdin.flush()


def _why(code: int, errors: bytes) -> str:
    lines = errors.decode(errors="replace").strip().splitlines()
    last = f": {lines[-1]}" if lines else ""
    return f"The process of this cell ended with code {code}{last}."
