"""A ledger that somebody else made, or that is damaged: one sentence, and nothing is changed."""

import errno
import hashlib
import os
import shutil
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from helpers import sqlite_calls
from helpers.toys import create, reopen
from pfedul import PfedulError
from pfedul.errors import TransientError
from pfedul.report.material import read_material
from pfedul.status import read_status
from pfedul.store.ledger import Ledger


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("ledger") / "run"
    with create(run, rounds=1) as federation:
        federation.train()
    return run


@pytest.fixture
def run(trained, tmp_path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def contents(folder: Path) -> dict[str, str]:
    """Everything in a folder, with times: what a reader must not change."""
    return {
        str(file.relative_to(folder)): f"{hashlib.sha256(file.read_bytes()).hexdigest()} "
        f"{file.stat().st_mtime_ns}"
        for file in folder.rglob("*")
        if file.is_file()
    }


def change(run: Path, script: str) -> None:
    with closing(sqlite3.connect(run / "ledger.db")) as database:
        database.executescript(script)


def refused(run: Path, words: str) -> None:
    """By readers and writers, and by all without a change to the ledger."""
    before = contents(run)
    with pytest.raises(PfedulError, match=words):
        read_status(run)
    with pytest.raises(PfedulError, match=words):
        reopen(run)
    after = contents(run)
    after.pop("lock", None), before.pop("lock", None)
    assert before == after


def journal_that_names(run: Path, victim: Path) -> None:
    """A hot journal whose roll back ends with the deletion of another file."""
    pages = (run / "ledger.db").stat().st_size // 4096
    magic = bytes.fromhex("d9d505f920a163d7")
    head = magic + struct.pack(">iIIII", 0, 7, pages, 512, 4096)
    name = str(victim).encode()
    tail = struct.pack(">I", (2**30) // 4096 + 1) + name
    tail += struct.pack(">II", len(name), sum(struct.unpack(f"{len(name)}b", name)) % 2**32) + magic
    (run / "ledger.db-journal").write_bytes(head.ljust(512, b"\0") + tail)


def test_a_journal_cannot_delete_a_file_elsewhere(run, tmp_path):
    victim = tmp_path / "thesis.txt"
    victim.write_text("a year of work")
    journal_that_names(run, victim)
    refused(run, "names another file")
    assert victim.read_text() == "a year of work"


def test_sqlite_itself_would_delete_it(run, tmp_path):
    """So the test above is about a real attack."""
    victim = tmp_path / "thesis.txt"
    victim.write_text("a year of work")
    journal_that_names(run, victim)
    with closing(sqlite3.connect(run / "ledger.db")) as database:
        database.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    assert not victim.exists()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            "CREATE TRIGGER keep AFTER DELETE ON clients BEGIN "
            "INSERT INTO meta VALUES (OLD.client, OLD.data_sha256); END;",
            "'keep', which is no table",
        ),
        (
            "DROP TABLE meta; CREATE VIEW meta AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
            "SELECT i + 1 FROM n) SELECT i AS key, i AS value FROM n;",
            "'meta', which is no table",
        ),
        ("CREATE VIRTUAL TABLE more USING fts5(words);", "is not as pfedul writes it"),
        ("CREATE INDEX fast ON replies (loss);", "'fast', which is no table"),
        ("CREATE TABLE more (words TEXT);", "its table 'more'"),
        ("DROP TABLE refusals;", "its table 'refusals'"),
        ("ALTER TABLE clients ADD COLUMN home TEXT;", "its table 'clients'"),
        ("UPDATE clients SET train_samples = 'many';", "'clients' has a value of a wrong type"),
        ("UPDATE rounds SET loss = x'00';", "'rounds' has a value of a wrong type"),
        ("UPDATE files SET sha256 = CAST(x'ff' AS TEXT);", "content that pfedul did not write"),
        ("DROP TABLE meta;", "content that pfedul did not write"),
        ("DELETE FROM meta;", "has format"),
        ("PRAGMA journal_mode = WAL;", "write-ahead log"),
    ],
)
def test_what_pfedul_does_not_write_is_refused(script, words, run):
    change(run, script)
    if "files" not in script:
        refused(run, words)
    else:
        with pytest.raises(PfedulError, match=words):
            reopen(run)


def test_a_request_that_is_done_and_has_no_outcome_is_refused(run):
    change(run, "INSERT INTO requests VALUES (1, '[\"c1\"]', '{}', 'now', 'done', 0, NULL)")
    for read in (read_status, read_material):
        with pytest.raises(PfedulError, match=r"did not write .* no outcome"):
            read(run)


def test_a_damaged_page_is_noticed(run):
    with (run / "ledger.db").open("r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\xff" * 100)
    refused(run, "ledger.db is not")


@pytest.mark.parametrize("content", [b"", b"not a database", b"SQLite format 3\0"])
def test_what_is_no_database_is_refused(content, run):
    (run / "ledger.db").write_bytes(content)
    refused(run, "ledger.db")


KILLED = """
import os, signal, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA cache_size = 1")
database.execute("BEGIN IMMEDIATE")
for number in range(2000):
    database.execute("INSERT INTO meta VALUES (?, ?)", (str(number), "x" * 500))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_reader_leaves_the_journal_of_a_killed_process_to_the_next_writer(run):
    """It reads what was committed before, from a copy."""
    subprocess.run([sys.executable, "-c", KILLED, run / "ledger.db"], check=False)
    before = contents(run)
    assert "ledger.db-journal" in before
    assert read_status(run)["rounds"] == 1
    assert contents(run) == before
    reopen(run).close()
    assert not (run / "ledger.db-journal").exists()
    assert read_status(run)["rounds"] == 1


def test_a_full_disk_while_a_ledger_is_made_is_a_sentence(tmp_path, monkeypatch):
    (tmp_path / "full").mkdir()
    monkeypatch.setattr(sqlite3, "connect", _full)
    with pytest.raises(PfedulError, match="cannot be created"):
        Ledger.create(tmp_path / "full/ledger.db")


def _full(*_arguments, **_options):
    raise sqlite3.OperationalError("database or disk is full")


def test_a_reader_of_a_read_only_file_works(run):
    for file in (run / "ledger.db", run):
        os.chmod(file, 0o500)
    with closing(Ledger(run / "ledger.db", read_only=True)) as ledger:
        assert ledger.meta("format")


@pytest.mark.skipif(not sqlite_calls.can_fail(), reason="this SQLite shows no system calls")
def test_a_disk_that_fails_once_is_not_foreign_content(run):
    """A removal would be refused for good, and not wait to be asked for again."""
    with closing(Ledger(run / "ledger.db")) as ledger:
        failing = sqlite_calls.failing(lambda name: errno.EIO if name == "fstat" else 0)
        with failing, pytest.raises(TransientError, match="disk I/O error"):
            ledger.rows("SELECT * FROM clients")
        assert ledger.rows("SELECT * FROM clients")
