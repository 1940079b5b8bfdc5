"""Who is at work, and how far: what a dashboard sees while a run is rehearsed and compared."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from helpers.cells_here import cells_here
from helpers.forgetting_kill import TARGET, deep_again, trained
from helpers.told import AtStage
from pfedul.dashboard.work import Part, Work, work_on

Seen = list[Work | None]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return trained(tmp_path_factory.mktemp("work") / "run", rounds=2, random_split=True)


def watching(run: Path, seen: Seen) -> AtStage:
    return AtStage(lambda *_: seen.append(work_on(run)))


def parts_in(seen: Seen, place: str) -> list[Part]:
    return [part for work in seen for part in work.parts if part.name.startswith(place)]


def test_a_rehearsal_shows_its_copy(run):
    seen: Seen = []
    with deep_again(run) as federation:
        federation.rehearse(TARGET, callbacks=[watching(run, seen)])
    assert {work.process for work in seen} == {os.getpid()}
    assert {part.name for work in seen for part in work.parts} == {"rehearsal/copy"}
    assert work_on(run) is None


def test_a_comparison_shows_its_oracles_and_its_branches(run):
    seen: Seen = []
    with deep_again(run) as federation, cells_here():
        federation.compare(TARGET, methods=["none"], callbacks=[watching(run, seen)])
    oracles = parts_in(seen, "oracles/")
    assert len({part.name for part in oracles}) == 2
    assert {part.wanted for part in oracles} == {2}
    assert {part.rounds for part in oracles} >= {0}
    assert parts_in(seen, "comparisons/none")
    assert work_on(run) is None
