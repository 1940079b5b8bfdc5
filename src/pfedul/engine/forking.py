"""Processes that the fork server starts, seen from the process that asks for them."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection

from pfedul.errors import TransientError

LOST = 255
"""The exit code of a process whose minder was killed."""


@dataclass(frozen=True)
class Surroundings:
    """What a forked process takes over from the one that asked for it.

    With `own_output` the first of its descriptors is for what it prints.
    """

    environment: dict[str, str]
    path: list[str]
    folder: str
    own_output: bool


@dataclass(eq=False)
class Forked:
    """A forked process, with what `subprocess.Popen` offers of it; `minder` tells how it ended."""

    pid: int
    minder: Connection
    returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, negative for a signal; TimeoutExpired if it is still running by then."""
        if self.returncode is None:
            if not self.minder.poll(timeout):
                raise subprocess.TimeoutExpired(["forked"], timeout or 0)
            try:
                self.returncode = self.minder.recv()
            except (EOFError, OSError):
                self.returncode = LOST
        return self.returncode

    def poll(self) -> int | None:
        """The exit code if it has ended."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def kill(self) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


@dataclass(frozen=True, eq=False)
class _Server:
    """The server's process, the socket for requests and the process that it works for."""

    process: subprocess.Popen[bytes]
    requests: socket.socket
    owner: int


_lock = threading.Lock()
_servers: list[_Server] = []
"""One at most. It stays for later workers: what it has imported took a second or two."""


def fork(module: str, descriptors: Sequence[int], surroundings: Surroundings) -> Forked:
    """Start `main` of a module of pfedul; its arguments are the descriptors."""
    for _ in range(2):
        server = _server(surroundings.environment)
        try:
            return _ask(server, module, descriptors, surroundings)
        except (OSError, EOFError):  # it was killed: the next one is another
            _end(server)
    raise TransientError("Worker processes cannot be started: is there enough memory?")


def _ask(
    server: _Server, module: str, descriptors: Sequence[int], surroundings: Surroundings
) -> Forked:
    ours, theirs = socket.socketpair()
    minder = Connection(ours.detach())
    with theirs:
        given = [theirs.fileno(), *descriptors]
        socket.send_fds(server.requests, [module.encode()], given)
    minder.send(surroundings)
    return Forked(minder.recv(), minder)


def _server(environment: dict[str, str]) -> _Server:
    """The server of this process; a copy that this process forks has its own."""
    with _lock:
        known = [server for server in _servers if server.owner == os.getpid()]
        if not known or known[0].process.poll() is not None:
            known = [_start(environment)]
        _servers[:] = known
        return known[0]


def _start(environment: dict[str, str]) -> _Server:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pfedul.engine.forkserver", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    return _Server(process, ours, os.getpid())


def _end(server: _Server) -> None:
    server.requests.close()
    server.process.kill()
    server.process.wait()


@atexit.register
def _stop() -> None:
    """End the server and collect it: what its workers cost counts for this process."""
    for server in _servers:
        if server.owner == os.getpid():
            _end(server)
