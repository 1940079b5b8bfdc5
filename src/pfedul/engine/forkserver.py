"""A process that has imported torch and pfedul, and forks a worker whenever it is asked to.

Started as `python -m pfedul.engine.forkserver`. It starts no threads, so what it forks is safe. It
ends when the process that asks it ends. Each worker has a minder, a process that says its number
and how it ended, and so a worker outlives a server that is killed.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection

from pfedul.engine.forking import Surroundings

MOST_DESCRIPTORS = 100
"""How many can come with one request."""

LONGEST_NAME = 1000


def main() -> None:
    """Serve the socket that the command line names; a forked worker returns from here as well."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to handle
    signal.signal(signal.SIGCHLD, _bury)
    import_module("pfedul.engine.worker")
    gc.freeze()
    while True:
        module, descriptors, _, _ = socket.recv_fds(requests, LONGEST_NAME, MOST_DESCRIPTORS)
        if not module:
            return
        start = import_module(module.decode()).main
        if os.fork() == 0:
            requests.close()
            _mind(start, *descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)


def _bury(*_: object) -> None:
    """Collect the minders that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _mind(start: Callable[[], None], line: int, *descriptors: int) -> None:
    """Fork the worker; say its number, and when it has ended its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with Connection(line) as report:
        surroundings = report.recv()
        pid = os.fork()
        if pid:
            for descriptor in descriptors:
                os.close(descriptor)
            with suppress(OSError):  # nobody listens any more
                report.send(pid)
                report.send(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            os._exit(0)
    _settle(surroundings, descriptors)
    start()


def _settle(surroundings: Surroundings, descriptors: Sequence[int]) -> None:
    """Make this process what `python -m` would have made it."""
    if surroundings.own_output:
        output, *descriptors = descriptors
        for standard in (1, 2):
            os.dup2(output, standard)
        os.close(output)
    os.environ.clear()
    os.environ.update(surroundings.environment)
    os.chdir(surroundings.folder)
    sys.path[:] = surroundings.path
    sys.argv[1:] = map(str, descriptors)


if __name__ == "__main__":
    main()
