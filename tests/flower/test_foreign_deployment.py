"""A deployment that came with somebody else's run: nothing of the user's is touched."""

import json
import sqlite3
import struct
from contextlib import closing

import pytest

pytest.importorskip("flwr")

from helpers.commands import refuse
from helpers.toys import create
from pfedul.errors import PfedulError
from pfedul.flower.deployment.down import scrub
from pfedul.flower.deployment.gone import remove_gone
from pfedul.flower.deployment.layout import DeploymentPaths, node_names
from pfedul.flower.deployment.processes import DeploymentRecord, read_record, write_record

RECORD = DeploymentRecord("token", "127.0.0.1", 18000, None)
WORDS = {"token": "x", "host": "127.0.0.1", "port": 18000, "data_root": None, "processes": []}


@pytest.fixture
def layout(tmp_path):
    layout = DeploymentPaths(tmp_path / "run")
    with create(layout.run) as federation:
        federation.train()
        federation.forget("c1")
    layout.folder.mkdir()
    return layout


@pytest.fixture
def thesis(tmp_path):
    file = tmp_path / "home/thesis.txt"
    file.parent.mkdir()
    file.write_text("a year of work")
    yield file
    assert file.read_text() == "a year of work"


def write_sql(layout, sql, *values):
    with closing(sqlite3.connect(layout.run / "ledger.db")) as ledger, ledger:
        ledger.execute(sql, values)


@pytest.mark.parametrize("names", ['["{home}"]', '["../../../home"]', '[""]', "[1]"])
def test_names_of_forgotten_clients_lead_nowhere(names, layout, thesis):
    targets = names.format(home=thesis.parent)
    write_sql(layout, "UPDATE requests SET targets = ?", targets)
    with pytest.raises(PfedulError, match="not allowed"):
        remove_gone(layout)


def test_names_of_clients_lead_nowhere(layout, thesis):
    write_sql(layout, "UPDATE clients SET client = ? WHERE client = 'c0'", str(thesis))
    with pytest.raises(PfedulError, match="not allowed"):
        node_names(layout, None, ())


@pytest.mark.parametrize(
    "text",
    [
        *("", "[", "[]", "{}", '{"processes": 3}', "\x00", "null", json.dumps(WORDS)),
        json.dumps({**WORDS, "signature": "00" * 64}),
        json.dumps({**WORDS, "signature": 7, "processes": [{"name": "x"}]}),
    ],
)
@pytest.mark.parametrize("command", ["up", "down"])
def test_a_record_that_we_did_not_sign_is_refused(command, text, layout):
    layout.record.write_text(text)
    error = refuse(command, layout.run).replace("\n", " ")
    assert "signature of your key" in error or "content that pfedul did not write" in error


@pytest.mark.parametrize("name", ["host", "data_root", "token"])
def test_no_word_of_a_signed_record_can_be_changed(name, layout):
    write_record(layout, RECORD)
    words = json.loads(layout.record.read_text())
    layout.record.write_text(json.dumps({**words, name: "10.0.0.9"}))
    with pytest.raises(PfedulError, match="signature of your key"):
        read_record(layout)


def test_our_record_of_another_run_is_refused(layout):
    other = DeploymentPaths(layout.run.with_name("other"))
    write_record(other, RECORD)
    layout.record.write_bytes(other.record.read_bytes())
    with pytest.raises(PfedulError, match="does not have the signature of your key"):
        read_record(layout)


def test_our_own_record_is_read(layout):
    write_record(layout, RECORD)
    assert read_record(layout) == RECORD


def test_keys_and_a_database_without_a_record_are_not_used(layout):
    (layout.folder / "keys").mkdir()
    assert "without a record of yours" in refuse("up", layout.run)


def test_a_journal_of_the_servers_database_cannot_delete_a_file_elsewhere(layout, thesis):
    layout.database.parent.mkdir(parents=True)
    with closing(sqlite3.connect(layout.database)) as database, database:
        database.execute("CREATE TABLE task_logs (log)")
    leave_journal_that_names(layout.database, thesis)
    with pytest.raises(PfedulError, match="names another file"):
        scrub(layout.database, logs=True)


def leave_journal_that_names(database, file):
    """A hot journal of a transaction over two databases; SQLite deletes the one it names."""
    magic = bytes.fromhex("d9d505f920a163d7")
    pages, name = database.stat().st_size // 4096, str(file).encode()
    head = magic + struct.pack(">iIIII", 0, 7, pages, 512, 4096)
    tail = struct.pack(">I", 2**30 // 4096 + 1) + name
    total = sum(struct.unpack(f"{len(name)}b", name)) % 2**32
    tail += struct.pack(">II", len(name), total) + magic
    database.with_name(f"{database.name}-journal").write_bytes(head.ljust(512, b"\0") + tail)
