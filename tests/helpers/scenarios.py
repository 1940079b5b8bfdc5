"""Work on a run that faults are injected into, and what must hold after each of them."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.forgetting_kill import TARGET, deep_again, trained
from helpers.toys import create, reopen, tensor_digests
from pfedul import PfedulError

CASES = "PFEDUL_FAULT_CASES"
"""How many cases are tried of each kind, if this environment variable says so (bench/faults.py)."""

States = Sequence[dict[str, str]]


@dataclass(frozen=True)
class Scenario:
    """Something that ends with a commit, or with several."""

    name: str
    start: Path
    open: Callable[[Path], Any]
    act: Callable[[Any], object]
    states: States
    """The digests of all tensors before it and after each of its commits."""

    def copied(self, to: Path) -> Path:
        shutil.copytree(self.start, to)
        return to

    def work(self, run: Path) -> None:
        with self.open(run) as federation:
            self.act(federation)

    def state(self, run: Path) -> int:
        """Which of the states a run is in, after it was opened; raises if in none of them."""
        self.open(run).close()
        return self.states.index(tensors(run))

    def finish(self, run: Path) -> None:
        """Do what is not done yet; it must end with the same bits."""
        if self.state(run) != len(self.states) - 1:
            self.work(run)
        ended, right = tensors(run), self.states[-1]
        assert ended == right, {name for name, _ in ended.items() ^ right.items()}
        assert not (run / "staging").exists()

    def problem(self, run: Path, fault: AbstractContextManager[object]) -> str | None:
        """What is wrong after work on a copy that a fault disturbs; None if nothing is."""
        with self.open(self.copied(run)) as federation:
            try:
                with fault:
                    self.act(federation)
            except PfedulError:
                pass
            except Exception as error:
                return f"{error!r} is no sentence"
        try:
            self.finish(run)
        except (PfedulError, AssertionError, ValueError) as error:
            return f"afterwards: {error!r}"
        return None


def tensors(run: Path) -> dict[str, str]:
    """The digests of all tensor files, but for a method's checkpoints."""
    return {k: v for k, v in tensor_digests(run).items() if not k.startswith("unlearning/")}


def training(folder: Path) -> Scenario:
    """Two rounds, each with its commit, of which the first makes the folders of the records."""
    start, settings = folder / "start", {"rounds": 2, "personalization": "ditto", "min_replies": 3}
    create(start, record="fisher+contributions", **settings).close()
    return _scenario("training", start, reopen, lambda federation: federation.train(), 2)


def removal(folder: Path) -> Scenario:
    """The default removal of a client."""
    start = trained(folder / "start", rounds=1, record="fisher+contributions")
    return _scenario("removal", start, deep_again, lambda federation: federation.forget(TARGET), 1)


SCENARIOS = {"training": training, "removal": removal}


def _scenario(
    name: str,
    start: Path,
    opened: Callable[[Path], Any],
    act: Callable[[Any], object],
    count: int,
) -> Scenario:
    """Done once without any fault, to know the states."""
    run = start.with_name("undisturbed")
    states = [tensors(start)]
    scenario = Scenario(name, start.resolve(), opened, act, states)
    scenario.copied(run)
    with opened(run) as federation:
        commit = federation.store.commit

        def commit_and_look() -> None:
            commit()
            states.append(tensors(run))

        federation.store.commit = commit_and_look
        act(federation)
    states[1:] = [state for state in states[1:] if state != states[0]][:count]
    return scenario


def sample(cases: Sequence[Any], count: int) -> list[Any]:
    """So many of the cases, or as many as are asked for; always the same ones."""
    count = int(os.environ.get(CASES, count))
    return random.Random(0).sample(list(cases), min(count, len(cases)))


def report(kind: str, cases: int, problems: Sequence[str]) -> None:
    """One line for bench/faults.py; then fail if anything did not hold."""
    print(f"\nfaults | {kind} | {cases} | {cases - len(problems)}")
    assert not problems, "\n".join(problems[:5])
