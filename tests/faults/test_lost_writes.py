"""A power cut at every instant, with unsynced writes lost: the run opens at a whole commit."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from helpers.lost_writes import PowerCuts, lay_out
from helpers.scenarios import report, sample
from helpers.toys import create, reopen, tensor_digests
from pfedul import PfedulError
from pfedul.store.connection import open_to_write

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux")


def test_a_power_cut_leaves_a_whole_commit(scenario, tmp_path):
    """What was committed when the power failed is there, and nothing half."""
    run = scenario.copied(tmp_path / "disk/run").resolve()
    with scenario.open(run) as federation:
        first = federation.store.commits
        cuts = PowerCuts(run.parent, lambda: federation.store.commits - first)
        with cuts.watched():
            scenario.act(federation)
    problems = []
    chosen = sample(cuts.images, 20)
    for number, (image, commits) in enumerate(chosen):
        place = lay_out(image, tmp_path / str(number)) / "run"
        try:
            assert scenario.state(place) in {commits, commits + 1}
            if number % 3 == 0:
                scenario.finish(place)
        except (PfedulError, ValueError, AssertionError) as error:
            problems.append(f"cut {number}: {error}")
    report(f"power cut with lost writes, {scenario.name}", len(chosen), problems)


def test_a_power_cut_leaves_a_new_run_whole_or_absent(tmp_path):
    root = (tmp_path / "disk").resolve()
    root.mkdir()
    done: list[bool] = []
    cuts = PowerCuts(root, lambda: bool(done))
    with cuts.watched():
        create(root / "run").close()
        done.append(True)
    whole, problems = tensor_digests(root / "run"), []
    chosen = sample(cuts.images, 15)
    for number, (image, there) in enumerate(chosen):
        place = lay_out(image, tmp_path / str(number)) / "run"
        try:
            assert there <= place.exists()
            (reopen(place) if place.exists() else create(place)).close()
            assert tensor_digests(place) == whole
        except (PfedulError, AssertionError) as error:
            problems.append(f"cut {number}: {error}")
    report("power cut with lost writes, creation", len(chosen), problems)


def test_the_ledger_is_opened_for_durable_commits(tmp_path):
    """The simulation trusts SQLite with these settings."""
    create(tmp_path / "run").close()
    database: sqlite3.Connection = open_to_write(tmp_path / "run/ledger.db")
    assert database.execute("PRAGMA synchronous").fetchone()[0] == 3
    assert database.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    database.close()
