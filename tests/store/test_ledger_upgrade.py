"""A ledger of the format before audits: readers leave it as it is, others bring it up."""

import json
import sqlite3
from contextlib import closing

import pytest

from helpers.auditing import tables
from helpers.commands import succeed
from helpers.forgetting_kill import copied
from helpers.toys import create, reopen
from pfedul import PfedulError
from pfedul.status import read_status
from pfedul.store.ledger import FORMAT, Ledger
from pfedul.store.takeover import accept

AUDIT_TABLES = ("audits", "audit_clients")
CHAIN_TABLES = ("chain", "admissions")
NEWER = (*AUDIT_TABLES, *CHAIN_TABLES)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A trained run as the version before audits left it."""
    run = tmp_path_factory.mktemp("ledger") / "run"
    with create(run, rounds=1) as federation:
        federation.train()
    set_format(run, "2", drop=NEWER)
    return run


@pytest.fixture
def run(start, tmp_path):
    return copied(start, tmp_path / "run")


def set_format(run, number, drop=()):
    with closing(sqlite3.connect(run / "ledger.db")) as database:
        for table in drop:
            database.execute(f"DROP TABLE {table}")
        database.execute("UPDATE meta SET value = ? WHERE key = 'format'", (number,))
        database.commit()


def schema(run):
    with closing(sqlite3.connect(run / "ledger.db")) as database:
        return set(database.execute("SELECT name, sql FROM sqlite_master"))


def test_taken_over_it_is_brought_up_and_keeps_its_rows(run, tmp_path):
    before = tables(run)
    accept(run)
    with reopen(run) as federation:
        assert federation.rounds == 1
        assert federation.store.ledger.meta("format") == FORMAT
    after = tables(run)
    added = {name: after.pop(name) for name in NEWER}
    chain = added.pop("chain")
    assert not any(added.values())
    assert [row["kind"] for row in chain] == ["upgraded"] * 5 + ["accepted"]
    assert json.loads(chain[0]["body"])["from"] == "2"
    for found, number in ((before, "2"), (after, FORMAT)):
        found["meta"] = sorted(found["meta"], key=lambda row: row["key"])
        assert {"key": "format", "value": number} in found["meta"]
        found["meta"].remove({"key": "format", "value": number})
    assert before == after
    with reopen(run) as federation:
        federation.train(2)
    with create(tmp_path / "new", rounds=1):
        pass
    assert schema(run) == schema(tmp_path / "new")


def test_of_a_run_without_a_chain_the_rows_that_are_there_are_signed(tmp_path):
    """The chain of an upgraded run begins with them: whoever changes one later is found."""
    run = tmp_path / "run"
    with create(run, rounds=1) as federation:
        federation.train()
        federation.forget("c1", method="none", allow_unchanged=True)
    set_format(run, "3", drop=CHAIN_TABLES)
    accept(run)
    with reopen(run):
        pass
    about = [json.loads(row["about"])[:1] for row in tables(run)["chain"] if row["about"]]
    assert about == [["files"], ["meta"], ["requests"], ["evaluations"], ["state"], ["meta"]]
    with closing(sqlite3.connect(run / "ledger.db")) as database:
        database.execute("UPDATE requests SET asked_at = 'never'")
        database.commit()
    with pytest.raises(PfedulError, match="row 1 of requests in the ledger: not what entry 4"):
        reopen(run)


def test_status_and_report_read_it_and_leave_it_as_it_is(run):
    """The version that wrote it must still be able to go on with it."""
    before = (run / "ledger.db").read_bytes()
    assert read_status(run)["rounds"] == 1
    assert "1 of 1" in succeed("status", run)
    succeed("report", run, "--output", run.parent / "report.md", "--format", "md")
    assert (run / "ledger.db").read_bytes() == before


def test_it_is_read_where_nothing_can_be_written(run):
    """A disk that is mounted to be read only."""
    before = (run / "ledger.db").read_bytes()
    assert read_status(run)["rounds"] == 1
    with closing(Ledger(run / "ledger.db", read_only=True)) as ledger:
        assert ledger.rows("SELECT * FROM audits") == []
        assert len(ledger.rows("SELECT * FROM clients")) == 3
    assert (run / "ledger.db").read_bytes() == before


def test_a_reader_of_a_new_ledger_cannot_write(run):
    with closing(Ledger(run / "ledger.db", read_only=True)) as ledger:
        for sql in ("DELETE FROM clients", "INSERT INTO meta VALUES ('a', 'b')"):
            with pytest.raises(PfedulError, match="cannot be written"):
                ledger.write([(sql, ())])


def test_brought_up_by_two_at_once_it_is_brought_up_once(run):
    with closing(Ledger(run / "ledger.db")) as one, closing(Ledger(run / "ledger.db")) as two:
        assert one.meta("format") == two.meta("format") == FORMAT


@pytest.mark.parametrize("number", ["1", "99"])
def test_older_and_newer_ones_are_refused_and_left_as_they_are(number, run):
    set_format(run, number)
    before = (run / "ledger.db").read_bytes()
    for read_only in (True, False):
        with pytest.raises(PfedulError, match=f"has format {number}"):
            Ledger(run / "ledger.db", read_only=read_only)
    assert (run / "ledger.db").read_bytes() == before
