"""Commands that only look at a run: nothing is changed, no lock is needed."""

import fcntl
import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from helpers.commands import succeed
from helpers.forgetting_kill import TARGET, deep_again, trained
from pfedul import PfedulError
from pfedul.cli.parts import not_as_signed
from pfedul.status import read_status
from pfedul.store import status_tables, trust
from pfedul.store.folder import process_at_work
from pfedul.store.store import Store

SIZES = ["--rounds", 1, "--clients", 4, "--samples", 400, "--model", "mlp", "--local-epochs", 1]


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("readonly") / "run"
    succeed("train", run, *SIZES)
    return run


@pytest.fixture
def run(start, tmp_path) -> Path:
    return Path(shutil.copytree(start, tmp_path / "run"))


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Files and folders with the times of their last change."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in (folder, *folder.rglob("*"))
    }


LOOKS = [
    ("status",),
    ("evaluate",),
    ("inspect", "--all"),
    ("inspect", "--client", "client-01"),
    ("report", "--output", "{}/page.html"),
]


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_a_look_changes_nothing_and_needs_no_lock(words, run, tmp_path):
    """On a copy without permission to write, whose lock another process holds."""
    command, *options = words
    for path in (*run.rglob("*"), run):
        path.chmod(0o500 if path.is_dir() else 0o400)
    before = contents(run)
    with (run / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        succeed(command, run, *(word.format(tmp_path) for word in options))
    assert contents(run) == before
    for path in (run, *run.rglob("*")):
        path.chmod(0o700)


def test_evaluate_gives_what_training_measured(run):
    known = read_status(run)["accuracy"][-1]["mean"]
    assert json.loads(succeed("evaluate", run, "--json"))["mean"] == pytest.approx(known)


@pytest.fixture
def interrupted(tmp_path, monkeypatch) -> Path:
    """A run that was killed right after the transaction of its second round."""
    run = trained(tmp_path / "interrupted", rounds=1, evaluate_every=1)
    with monkeypatch.context() as patch:
        federation = deep_again(run)
        patch.setattr(Store, "_publish", _killed)
        with pytest.raises(RuntimeError):
            federation.train(2)
        federation.close()
    assert (run / "staging").is_dir()
    return run


def _killed(*_arguments):
    raise RuntimeError("killed")


def test_an_unfinished_commit_is_read_where_it_waits(interrupted):
    before = contents(interrupted)
    with deep_again(interrupted, read_only=True) as federation:
        assert federation.rounds == 2
        evaluation, digest = federation.evaluate(), federation.store.state_digest()
    assert contents(interrupted) == before
    with deep_again(interrupted) as federation:
        assert federation.evaluate() == evaluation
        assert federation.store.state_digest() == digest
    assert not (interrupted / "staging").exists()


def test_files_that_are_moved_meanwhile_are_read_at_their_new_place(interrupted):
    with deep_again(interrupted, read_only=True) as federation:
        deep_again(interrupted).close()
        assert federation.evaluate().mean > 0


def test_a_commit_of_another_process_meanwhile_is_said(tmp_path):
    run = trained(tmp_path / "run", rounds=1, evaluate_every=1)
    look = deep_again(run, read_only=True)
    with deep_again(run) as federation:
        federation.train(2)
    with pytest.raises(PfedulError, match=r"changed .* meanwhile"), look:
        look.evaluate()


def test_what_would_change_the_run_is_refused(tmp_path):
    run = trained(tmp_path / "run", rounds=1, evaluate_every=1)
    before = contents(run)
    with deep_again(run, read_only=True, rounds=7) as federation:
        for change in (
            federation.train,
            federation.recalibrate,
            lambda: federation.forget(TARGET),
            lambda: federation.rehearse(TARGET),
            lambda: federation.admit(TARGET),
        ):
            with pytest.raises(PfedulError, match="was opened read-only"):
                change()
    assert contents(run) == before


def meanwhile(module, name, run, monkeypatch):
    """Another process tries to commit when this function was called; what came of it."""
    outcomes, function = [], getattr(module, name)

    def with_a_commit(ledger, *args):
        result = function(ledger, *args)
        with closing(sqlite3.connect(run / "ledger.db", timeout=0)) as other:
            try:
                other.execute("DELETE FROM chain")
                other.commit()
            except sqlite3.OperationalError as error:
                outcomes.append(str(error))
        return result

    monkeypatch.setattr(module, name, with_a_commit)
    return outcomes


def test_status_is_that_of_one_commit(run, monkeypatch):
    """A round that is committed while the ledger is read would not fit the chain that was read."""
    outcomes = meanwhile(status_tables, "accuracy_rows", run, monkeypatch)
    assert read_status(run)["chain"]["wrong"] == []
    assert outcomes == ["database is locked"]


def test_a_chain_and_the_rows_that_it_is_about_are_of_one_commit(run, monkeypatch):
    """Else a run that is being trained would at times not be as it was signed."""
    outcomes = meanwhile(trust, "read_chain", run, monkeypatch)
    assert not_as_signed(run) is None
    assert outcomes == ["database is locked"]


def test_who_is_at_work_is_known_without_taking_the_lock(run):
    assert process_at_work(run) is None
    store = Store.open(run)
    assert process_at_work(run) == os.getpid()
    store.close()
    assert process_at_work(run) is None
    (run / "lock").write_text("a foreign text")
    assert process_at_work(run) is None
