"""Mutated and crafted run folders: one sentence each, nothing outside them is touched.

    PFEDUL_FUZZ=2000 python -m pytest tests/fuzz -n 2

tries as many; `make test` a few. A seed stands for one mutated run.
"""

import os
import shutil
import signal
import sqlite3
from contextlib import contextmanager
from pathlib import Path

import pytest

from helpers.commands import call, succeed
from helpers.mutations import mutate
from pfedul.dashboard.routes import Dashboard

SEEDS = range(int(os.environ.get("PFEDUL_FUZZ", "24")))
SECONDS = 60
"""A command that takes longer hangs."""

SIZES = ["--rounds", 2, "--clients", 3, "--samples", 120, "--test-samples", 60, "--model", "mlp"]

LOOKS = [
    ("status",),
    ("evaluate",),
    ("inspect", "--all"),
    ("inspect", "--client", "client-01", "--json"),
    ("report", "--output", "{out}/page.html"),
    ("report", "--format", "md", "--output", "{out}/page.md"),
    ("verify",),
    ("certificate", "--output", "{out}/certificate.json"),
]
CHANGES = [("train", "--rounds", "3"), ("forget", "--client", "client-01", "--yes")]


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("fuzz") / "run"
    words = ["--local-epochs", 1, "--engine", "inline", "--min-samples", 1]
    succeed("train", run, *SIZES, *words)
    succeed("rehearse", run, "--client", "client-00")
    succeed("forget", run, "--client", "client-00", "--yes")
    return run


@contextmanager
def not_for_ever():
    def hangs(*_):
        raise AssertionError("the command hangs")

    signal.signal(signal.SIGALRM, hangs)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)


def contents(folder: Path) -> dict[str, bytes]:
    """Everything below a folder; nothing of what a link leads to."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def attempt(run: Path, words: tuple[str, ...], out: Path) -> str:
    """One command on a mutated run; returns what is wrong, if anything is."""
    command, *options = (word.format(out=out) for word in words)
    with not_for_ever():
        result = call(command, run, *options)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return f"{command}: {result.exception!r}"
    errors = [
        line for line in result.stderr.splitlines() if line.startswith(("Error:", '{"error":'))
    ]
    if result.exit_code not in {0, 1, 2} or len(errors) != (result.exit_code != 0):
        return f"{command}: exit {result.exit_code}, {result.output}"
    raw = [byte for byte in result.output if ord(byte) < 32 and byte not in "\n\t"]
    return f"{command}: printed {raw}" if raw else ""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_mutated_run_is_opened_or_refused_with_a_sentence(seed, start, tmp_path):
    run, home = Path(shutil.copytree(start, tmp_path / "run")), tmp_path / "home"
    (home / "notes").mkdir(parents=True)
    for name in ("thesis.txt", "notes/one.txt"):
        (home / name).write_text("a year of work")
    try:
        kinds = mutate(seed, run, home)
    except (sqlite3.Error, UnicodeDecodeError):
        pytest.skip("one mutation left no database for the next")
    before, around = contents(run), contents(home)
    look = LOOKS[seed % len(LOOKS)]
    wrong = attempt(run, look, tmp_path)
    assert not wrong, (kinds, wrong)
    assert contents(run) == before, kinds
    wrong = attempt(run, CHANGES[seed % len(CHANGES)], tmp_path)
    assert not wrong, (kinds, wrong)
    assert contents(home) == around, kinds
    assert {path.name for path in tmp_path.iterdir()} <= {
        "run",
        "home",
        "page.html",
        "page.md",
        "certificate.json",
    }


@pytest.mark.parametrize("seed", SEEDS[:8])
def test_a_dashboard_shows_a_mutated_run_or_a_sentence(seed, start, tmp_path):
    run, home = Path(shutil.copytree(start, tmp_path / "runs/run")), tmp_path / "home"
    home.mkdir()
    try:
        kinds = mutate(seed, run, home)
    except (sqlite3.Error, UnicodeDecodeError):
        pytest.skip("one mutation left no database for the next")
    before = contents(run)
    shutil.copytree(start, tmp_path / "runs/whole")
    dashboard = Dashboard([tmp_path / "runs"])
    with not_for_ever():
        overview = dashboard.answer("", "/base").text
        pages = [dashboard.answer(f"runs/{number}", "/base").text for number in (1, 2)]
    assert ">whole</a>" in overview, kinds
    assert all("cannot be shown" in page or "chain of evidence" in page for page in pages), kinds
    assert contents(run) == before, kinds


PIPES = [
    *("ledger.db-journal", "federation.toml", "federation.toml.new", "shared.safetensors", "lock"),
    *("certificates/request-1.json", "comparisons/x/clients.json", "staging/1", "ledger.db"),
]


@pytest.mark.parametrize("name", PIPES)
def test_no_command_waits_at_a_pipe(name, start, tmp_path):
    run = Path(shutil.copytree(start, tmp_path / "run"))
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    for words in (*LOOKS, *CHANGES):
        wrong = attempt(run, words, tmp_path)
        assert not wrong, (words, wrong)
