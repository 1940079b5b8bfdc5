"""Processes that outlive the command that started them, and the sure way to end just those.

A pid alone says nothing: the system uses it again. A process is the one that was
started when its pid and the moment of its start are those on record. Flower's
processes start others, some in sessions of their own that outlive their parent;
they all inherit a mark in their environment, and are found by it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pfedul.errors import PfedulError

MARK = "PFEDUL_PROCESS"
"""The variable of the environment that children inherit."""

GRACE = 10.0
"""Seconds between asking a process to end and making it."""

KILL_WAIT = 5.0
_POLL = 0.05
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Process:
    """A process on record. `address` is where it listens."""

    name: str
    pid: int
    started: str
    command: tuple[str, ...]
    address: str
    log: str


@dataclass(frozen=True)
class Identity:
    """A process that cannot be mistaken for another that has its pid later."""

    pid: int
    started: str


def start(
    name: str, command: Sequence[str], environment: Mapping[str, str], address: str, log: Path
) -> Process:
    """Start a process in a session of its own: Ctrl-C here does not reach it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        child = subprocess.Popen(
            command,
            env=dict(environment),
            cwd=log.parent.parent,  # stays, wherever the command was called
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    pid, started = child.pid, moment(child.pid)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # that it goes on running is the point
        del child
    return Process(name, pid, started or "", tuple(command), address, str(log))


def last_line(log: Path) -> str:
    """The last line of a log that says something, without colours."""
    text = log.read_text(errors="replace") if log.is_file() else ""
    lines = [line.strip() for line in _COLOUR.sub("", text).splitlines()]
    return next((line for line in reversed(lines) if line), "(nothing)")


def is_alive(process: Process) -> bool:
    """Is it there, and is it the one that was started?"""
    return bool(process.started) and moment(process.pid) == process.started


def moment(pid: int) -> str | None:
    """When a process started, as boot and clock ticks since then; None if it has ended."""
    with suppress(OSError):
        # The second field, the program's name in parentheses, may hold anything.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        # Killed, a process is a zombie while some of its threads still hold files and ports.
        if fields[0] not in {"Z", "X"} or int(fields[17]) > 1:
            return f"{_boot()}/{fields[19]}"
    return None


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def require_proc() -> None:
    """A sentence where processes cannot be told apart."""
    if moment(os.getpid()) is None:
        raise PfedulError("This needs Linux with /proc mounted; docs/deploy.md has the commands.")


def family(marks: Sequence[str]) -> list[Identity]:
    """All running processes whose environment bears one of the marks, or one that begins so."""
    wanted = tuple(f"{MARK}={mark}".encode() for mark in marks)
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _bears(entry / "environ", wanted):
            started = moment(int(entry.name))
            if started is not None:
                found.append(Identity(int(entry.name), started))
    return found


def _bears(environ: Path, wanted: tuple[bytes, ...]) -> bool:
    with suppress(OSError):  # another user's, or it has just ended
        return any(part.startswith(wanted) for part in environ.read_bytes().split(b"\0"))
    return False


def end(processes: Sequence[Process], marks: Sequence[str], grace: float = GRACE) -> list[Identity]:
    """End the processes and all that bear the marks, gently at first; returns those ended."""
    asked: set[Identity] = set()
    deadline = time.monotonic() + grace
    while (left := _still_there(processes, marks)) and time.monotonic() < deadline:
        for identity in set(left) - asked:  # the processes may start others meanwhile
            send(identity, signal.SIGTERM)
        asked |= set(left)
        time.sleep(_POLL)
    _kill(processes, marks)
    return sorted(asked, key=lambda identity: identity.pid)


def _kill(processes: Sequence[Process], marks: Sequence[str]) -> None:
    deadline = time.monotonic() + KILL_WAIT
    while left := _still_there(processes, marks):
        if time.monotonic() > deadline:
            pids = ", ".join(str(identity.pid) for identity in left)
            raise PfedulError(f"These processes do not end, not even when killed: {pids}.")
        for identity in left:
            send(identity, signal.SIGKILL)
        time.sleep(_POLL)


def _still_there(processes: Sequence[Process], marks: Sequence[str]) -> list[Identity]:
    recorded = {Identity(item.pid, item.started) for item in processes if is_alive(item)}
    return list(recorded | set(family(marks)))


def send(identity: Identity, number: signal.Signals) -> None:
    """Signal a process, never another one that got its pid in the meantime."""
    with suppress(ProcessLookupError):
        # From here on the handle stands for one process, even when that ends and its pid is reused.
        handle = os.pidfd_open(identity.pid)
        try:
            if moment(identity.pid) == identity.started:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
