"""No memory at any function call of a commit: one sentence, and nothing is lost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
from click.testing import CliRunner

import pfedul
from helpers.scenarios import report, sample
from pfedul.cli import main
from pfedul.federation import Federation

PACKAGE = pfedul.__path__[0]

Fails = Callable[[int], bool]


@contextmanager
def allocations(fails: Fails) -> Iterator[list[str]]:
    """Each call that pfedul makes may fail, as any needs memory; gives the calls made."""
    calls: list[str] = []

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event not in {"call", "c_call"} or not frame.f_code.co_filename.startswith(PACKAGE):
            return
        if _checks_a_reply(frame):
            return
        calls.append(f"{frame.f_code.co_qualname} {getattr(argument, '__name__', '')}")
        if fails(len(calls) - 1):
            raise MemoryError  # and Python stops to ask this function

    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def _checks_a_reply(frame: FrameType | None) -> bool:
    """Any error there refuses the reply, by design: what a client sends can ask for any memory."""
    while frame is not None and frame.f_code.co_name != "_reason":
        frame = frame.f_back
    return frame is not None


def test_a_lack_of_memory_ends_with_one_sentence_and_loses_nothing(scenario, tmp_path):
    with (
        scenario.open(scenario.copied(tmp_path / "counted")) as federation,
        allocations(lambda _: False) as calls,
    ):
        scenario.act(federation)
    problems, chosen = [], sample(range(len(calls)), 5)
    for number in chosen:
        fault = allocations(lambda at, number=number: at == number)
        text = scenario.problem(tmp_path / str(number), fault)
        problems += [f"{number} ({calls[number]}): {text}"] if text else []
    report(f"no memory at a call, {scenario.name}", len(chosen), problems)


@pytest.mark.parametrize("command", ["evaluate", "status"])
def test_the_command_line_says_it_in_one_sentence(command, monkeypatch, tmp_path):
    def no_memory(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Federation, "open", no_memory)
    monkeypatch.setattr("pfedul.status.read_status", no_memory)
    done = CliRunner().invoke(main, [command, str(tmp_path)])
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: There was not enough memory;")
    assert len(done.stderr.splitlines()) == 1
