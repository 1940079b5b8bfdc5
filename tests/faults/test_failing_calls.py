"""A system call that fails in the middle of a commit: one sentence, and nothing is lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from helpers import sqlite_calls
from helpers.disk import Disk
from helpers.scenarios import report, sample

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux")

Fails = Callable[[str, int], int]
"""(name of a call, its number) -> 0, or the error with which it fails."""
System = Callable[[Path, Fails], AbstractContextManager[list[str]]]
"""Lets calls fail within the block; it gives the names of those made."""


@contextmanager
def pythons_calls(run: Path, fails: Fails) -> Iterator[list[str]]:
    calls: list[str] = []

    def before(name: str, path: Path) -> None:
        calls.append(name)
        error = fails(name, len(calls) - 1)
        if error:
            raise OSError(error, os.strerror(error), str(path))

    with Disk(run, before).watched():
        yield calls


@contextmanager
def sqlites_calls(_run: Path, fails: Fails) -> Iterator[list[str]]:
    calls: list[str] = []

    def error_of(name: str) -> int:
        calls.append(name)
        return fails(name, len(calls) - 1)

    with sqlite_calls.failing(error_of):
        yield calls


SYSTEMS = {"files": pythons_calls, "SQLite": sqlites_calls}


def once(number: int) -> Fails:
    """One call fails, as a disk does that is about to."""
    error = (errno.EIO, errno.ENOSPC)[number % 2]
    return lambda _name, at: error if at == number else 0


def from_then_on(number: int) -> Fails:
    """The disk is full, or broken, until the process ends."""
    error = (errno.ENOSPC, errno.EIO)[number % 2]
    writing = {"replace", "mkdir", "link", "fsync", "create", "write", "pwrite64", "ftruncate"}
    return lambda name, at: error if at >= number and name in writing else 0


HOW = {"once": once, "from then on": from_then_on}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_failing_call_ends_with_one_sentence_and_loses_nothing(system, how, scenario, tmp_path):
    if system == "SQLite" and not sqlite_calls.can_fail():
        pytest.skip("this SQLite shows no system calls")
    counted = scenario.copied(tmp_path / "counted").resolve()
    with scenario.open(counted) as federation, SYSTEMS[system](counted, lambda *_: 0) as calls:
        scenario.act(federation)
    chosen = sample(range(len(calls)), 3)
    problems = []
    for number in chosen:
        run = tmp_path.resolve() / str(number)
        text = scenario.problem(run, SYSTEMS[system](run, HOW[how](number)))
        problems += [f"{number} ({calls[number]}): {text}"] if text else []
    report(f"{system}: a call fails {how}, {scenario.name}", len(chosen), problems)
