"""The chain of evidence: what is signed, who signed it, and that nothing in it can be changed."""

import json
import sqlite3
from contextlib import closing

import pytest

from helpers.forgetting_kill import copied
from helpers.toys import create, reopen
from pfedul import PfedulError
from pfedul.base.keys import KEY_VARIABLE, make_key, operator_key, public_hex, usual_key_file
from pfedul.store.attested import (
    broken_links,
    changed_rows,
    differences_from_chain,
    read_chain,
    unsigned_entries,
)
from pfedul.store.audits import write_audit
from pfedul.store.ledger import Ledger
from pfedul.store.takeover import accept


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A run with a row of every kind that is attested, erasures at nodes aside."""
    run = tmp_path_factory.mktemp("chain") / "run"
    with create(run, rounds=1) as federation:
        federation.train()
        federation.forget("c1", method="none", allow_unchanged=True)
    with reopen(run) as federation:
        federation.admit("c1", again=True)
        evidence = {"kind": "audit", "made_at": "now", "targets": ["c2"], "verdict": "not enough"}
        write_audit(federation.store.ledger, {**evidence, "command": "pfedul audit"}, {})
    return run


@pytest.fixture
def run(start, tmp_path):
    return copied(start, tmp_path / "run")


def read(run, question=read_chain):
    with closing(Ledger(run / "ledger.db", read_only=True)) as ledger:
        return question(ledger)


def tamper(run, *statements):
    with closing(sqlite3.connect(run / "ledger.db")) as database:
        for sql in statements:
            database.execute(sql)
        database.commit()


def test_everything_that_happened_is_an_entry_signed_with_the_users_key(run):
    chain = read(run)
    kinds = [entry.kind for entry in chain]
    wanted = ("created", "request", "commit", "admission", "audit", "evaluations", "state")
    assert set(kinds) == set(wanted)
    assert {entry.public_key for entry in chain} == {public_hex(make_key(usual_key_file()))}
    assert not broken_links(chain)
    assert not unsigned_entries(chain)
    assert not read(run, differences_from_chain)


def test_the_key_is_the_users_alone():
    make_key(usual_key_file())
    assert usual_key_file().stat().st_mode & 0o777 == 0o600
    assert usual_key_file().parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE audits SET evidence = replace(evidence, 'not enough', 'more than')",
        "DELETE FROM audits",
        "INSERT INTO audits SELECT 9, kind, targets, made_at, evidence FROM audits",
        "UPDATE requests SET asked_at = '2020-01-01T00:00:00+00:00'",
        "UPDATE requests SET outcome = replace(outcome, 'none', 'some')",
        "DELETE FROM requests",
        "UPDATE admissions SET joined_round = 0",
        "UPDATE evaluations SET accuracy = 0.01",
        "INSERT INTO evaluations SELECT 9, client, 1.0, loss, samples FROM evaluations",
        "DELETE FROM admissions",
        "INSERT INTO erasures VALUES (1, 'c1', '', 'now', 'now', '{}')",
        "UPDATE files SET sha256 = 'x' || substr(sha256, 2) WHERE path = 'shared.safetensors'",
        "UPDATE meta SET value = 'f' WHERE key = 'settings_sha256'",
        "DELETE FROM chain WHERE entry = (SELECT MAX(entry) FROM chain)",
        "DELETE FROM chain WHERE entry = 2",
        "DELETE FROM chain",
        "UPDATE chain SET salt = NULL",
        *(
            f"UPDATE chain SET {column} = 'x' || substr({column}, 2) WHERE entry = {entry}"
            for column in ("kind", "at", "about", "body", "previous", "hash", "public_key")
            for entry in (1, 3)
        ),
        "UPDATE chain SET signature = 'x' || substr(signature, 2) WHERE entry = "
        "(SELECT MAX(entry) FROM chain)",
    ],
)
def test_whatever_is_changed_is_found_and_the_run_does_not_open(sql, run):
    tamper(run, sql)
    assert read(run, differences_from_chain)
    with pytest.raises(PfedulError, match="changed by something else"):
        reopen(run)


def test_another_key_is_an_entry_of_its_own(run, monkeypatch, tmp_path):
    key = tmp_path / "mine.key"
    make_key(key)
    monkeypatch.setenv(KEY_VARIABLE, str(key))
    accept(run)
    with reopen(run) as federation:
        federation.train(2)
    *_, changed, accepted, settings, commit, evaluations, state = read(run)
    last = (changed, accepted, settings, commit, evaluations, state)
    kinds = ["key changed", "accepted", "settings", "commit", "evaluations", "state"]
    assert [entry.kind for entry in last] == kinds
    assert changed.public_key == commit.public_key == public_hex(operator_key())
    assert changed.facts["from"] == read(run)[0].public_key


def test_the_hash_of_a_row_that_changed_says_nothing_of_what_it_was(run):
    """Its salt is deleted: nobody can try out what an erased figure may have been."""
    of_request = [entry for entry in read(run) if entry.about == '["requests",1]']
    assert [entry.salt is None for entry in of_request] == [True, False]
    assert [entry.facts["status"] for entry in of_request] == ["pending", "done"]


def test_the_chain_names_no_client(run):
    with closing(sqlite3.connect(run / "ledger.db")) as database:
        words = json.dumps(database.execute("SELECT * FROM chain").fetchall())
    assert not [client for client in ("c0", "c1", "c2") if f'"{client}"' in words.replace("\\", "")]


def test_an_erased_admission_is_erased_and_its_entry_stays(run):
    with reopen(run) as federation:
        federation.forget("c1", method="none", allow_unchanged=True)
        assert not federation.store.ledger.rows("SELECT * FROM admissions")
    assert "erased" in [entry.kind for entry in read(run)]
    assert not changed_rows_of(run)


def changed_rows_of(run):
    with closing(Ledger(run / "ledger.db", read_only=True)) as ledger:
        return changed_rows(ledger, read_chain(ledger))
