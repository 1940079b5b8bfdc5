"""Processes that outlive the command that started them, their record, and how to end just those.

The system reuses pids, so a process counts as the one that was started only if its
start time is the one on record. Flower's processes start others, some in sessions of
their own that outlive their parent; all of them inherit a mark in their environment
and are found by it. `processes.json` records who was started and where it listens. It is signed
with the operator's key: a deployment that came with somebody else's run is left alone.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from pfedul.base.keys import is_signed, operator_key, public_hex
from pfedul.errors import PfedulError
from pfedul.flower.deployment.layout import PRIVATE, SUPERLINK, DeploymentPaths, write
from pfedul.store.soundness import content_of, json_object

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
    """Whether it runs and is the process that was started."""
    return bool(process.started) and moment(process.pid) == process.started


def moment(pid: int) -> str | None:
    """When a process started, in seconds since the boot; None if it has ended."""
    with suppress(psutil.Error):
        return _moment(psutil.Process(pid))
    return None


def _moment(process: psutil.Process) -> str | None:
    # Killed, a process is a zombie while some of its threads still hold files and ports.
    if process.status() in _ENDED and process.num_threads() <= 1:
        return None
    # Both times shift when the clock is set; their difference does not.
    return f"{process.create_time() - psutil.boot_time():.2f}"


_ENDED = {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}


def family(marks: Sequence[str]) -> list[psutil.Process]:
    """All running processes whose environment has one of the marks, or one that begins with it."""
    members = []
    for pid in psutil.pids():
        with suppress(psutil.Error, OSError):  # another user's, or it has just ended
            process = psutil.Process(pid)
            if process.environ().get(MARK, "").startswith(tuple(marks)) and _moment(process):
                members.append(process)
    return members


def end(
    processes: Sequence[Process], marks: Sequence[str], grace: float = GRACE
) -> list[psutil.Process]:
    """End the processes and all that have the marks, gently at first; returns those ended."""
    asked: set[psutil.Process] = set()
    began = time.monotonic()
    while left := _still_there(processes, marks):
        waited = time.monotonic() - began
        if waited > grace + KILL_WAIT:
            pids = ", ".join(str(process.pid) for process in left)
            raise PfedulError(f"These processes do not end, not even when killed: {pids}.")
        for process in left:  # the processes may start others meanwhile
            with suppress(psutil.Error):  # psutil signals no other process that has its pid by now
                if waited >= grace:
                    process.kill()
                elif process not in asked:
                    process.terminate()
        asked |= left
        time.sleep(_POLL)
    return sorted(asked, key=lambda process: process.pid)


def _still_there(processes: Sequence[Process], marks: Sequence[str]) -> set[psutil.Process]:
    present = set(family(marks)) if marks else set()
    for item in processes:
        with suppress(psutil.Error):
            process = psutil.Process(item.pid)
            if _moment(process) == item.started:
                present.add(process)
    return present


@dataclass(frozen=True)
class DeploymentRecord:
    """A deployment's processes, those that have ended included: their ports are used again.

    `token` marks the processes of this deployment and all that they start.
    """

    token: str
    host: str
    port: int
    data_root: str | None
    processes: tuple[Process, ...] = ()

    def find(self, name: str) -> Process | None:
        return next((item for item in self.processes if item.name == name), None)

    def runs(self, name: str) -> bool:
        process = self.find(name)
        return process is not None and is_alive(process)

    def running(self) -> list[Process]:
        return [item for item in self.processes if is_alive(item)]

    def mark(self, name: str) -> str:
        """What children of that process bear, after the token that all of the deployment bear.

        The slash keeps `a` from being taken for `ab`.
        """
        return f"{self.token}/{name}/"

    def with_process(self, process: Process) -> DeploymentRecord:
        others = [item for item in self.processes if item.name != process.name]
        in_order = sorted([*others, process], key=lambda item: (item.name != SUPERLINK, item.name))
        return replace(self, processes=tuple(in_order))


def read_record(layout: DeploymentPaths) -> DeploymentRecord | None:
    """None where nothing was ever started."""
    if not layout.record.is_file():
        return None
    with content_of(layout.record):
        kept = json_object(layout.record.read_text(encoding="utf-8"))
        signature, words = str(kept.pop(_SIGNATURE, "")), kept
    if not is_signed(public_hex(operator_key()), signature, _message(layout, words)):
        raise PfedulError(
            f"{layout.record} does not have the signature of your key, so nothing was touched: "
            f"end what it started yourself, and remove {layout.folder}; if you made it with "
            "another key, give that with 'pfedul --key'."
        )
    items = [Process(**{**item, "command": tuple(item["command"])}) for item in words["processes"]]
    return DeploymentRecord(**{**words, "processes": tuple(items)})


def write_record(layout: DeploymentPaths, record: DeploymentRecord) -> None:
    words = json.loads(json.dumps(asdict(record)))
    signed = {**words, _SIGNATURE: operator_key().sign(_message(layout, words)).hex()}
    write(layout.record, (json.dumps(signed, indent=2) + "\n").encode(), PRIVATE)


_SIGNATURE = "signature"


def _message(layout: DeploymentPaths, words: Mapping[str, Any]) -> bytes:
    """What is signed: also where it is, so the record of one run is of no use in another."""
    signed = {**words, "folder": str(layout.folder.resolve())}
    return b"pfedul deployment\n" + json.dumps(signed, sort_keys=True).encode()
