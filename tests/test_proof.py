"""Certificates and verification: whatever is changed is found, and others' tools agree."""

import base64
import json
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from helpers.commands import call, refuse, succeed
from helpers.forgetting_kill import copied
from helpers.toys import create, reopen
from pfedul.base.hashes import digest_file
from pfedul.base.keys import (
    KEY_VARIABLE,
    fingerprint,
    make_key,
    public_hex,
    public_pem,
    usual_key_file,
)
from pfedul.proof import verify_run as verifying
from pfedul.proof.certificate import certify
from pfedul.proof.envelope import sign
from pfedul.proof.verify_certificate import read_certificate
from pfedul.proof.verify_run import verify_run
from pfedul.store.audits import write_audit
from pfedul.store.ledger import Ledger
from pfedul.store.takeover import accept


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A run with a removal and its certificate."""
    run = tmp_path_factory.mktemp("proof") / "run"
    with create(run, rounds=2, personalization="fedper") as federation:
        federation.train()
        federation.forget("c1", correction="reset:fraction=0.3", layers="all", by="case 17")
        evidence = {
            "kind": "audit",
            "made_at": "now",
            "targets": ["c2"],
            "verdict": {"verdict": "?"},
        }
        figures = {"c0": {"before": 0.5}}
        write_audit(federation.store.ledger, {**evidence, "command": "pfedul audit"}, figures)
    succeed("certificate", run)
    return run


@pytest.fixture
def run(start, tmp_path):
    return copied(start, tmp_path / "run")


@pytest.fixture
def public(tmp_path):
    """The operator's public key in a file, as those who verify have it."""
    file = tmp_path / "operator.pub"
    file.write_text(public_pem(public_hex(make_key(usual_key_file()))))
    return file


def certificate_of(run):
    return run / "certificates/request-1.json"


def wrong(run):
    return [check.sentence for check in verify_run(run, None) if check.holds is False]


def test_a_round_that_is_committed_meanwhile_is_no_contradiction(run, monkeypatch):
    """The chain that was read is older than the rows and files that are."""
    reopened = iter([run])
    unsigned = verifying.unsigned_entries

    def with_a_round(chain):
        for folder in reopened:
            with reopen(folder) as federation:
                federation.train(federation.rounds + 1)
        return unsigned(chain)

    monkeypatch.setattr(verifying, "unsigned_entries", with_a_round)
    assert wrong(run) == []
    assert list(reopened) == []


def flip(file, place=None):
    """Change one bit of one byte."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2 if place is None else place] ^= 1
    file.write_bytes(data)


def test_a_run_and_its_certificate_hold(run, public):
    out = succeed("verify", run, "--public-key", public)
    assert "WRONG" not in out
    assert "The signer is the owner of the key that you gave" in out
    assert "request-1.json is about request 1 of this run" in out
    assert "unless somebody has a certificate" in " ".join(out.split())
    assert "the operator's public key with --public-key" in " ".join(
        succeed("verify", certificate_of(run)).split()
    )


def test_it_writes_nothing_and_works_on_a_copy_that_cannot_be_written(run):
    before = {path: path.stat().st_mtime_ns for path in [run, *run.rglob("*")]}
    for path in before:
        path.chmod(0o500 if path.is_dir() else 0o400)
    assert not wrong(run)
    assert {path: path.stat().st_mtime_ns for path in [run, *run.rglob("*")]} == before
    for path in before:
        path.chmod(stat.S_IRWXU)


FILES = (
    *("init.safetensors", "shared.safetensors", "clients/c0/personal.safetensors"),
    *("records/fisher/c0.safetensors", "records/fisher-total.safetensors", "federation.toml"),
    "certificates/request-1.json",
)


@pytest.mark.parametrize("name", FILES)
def test_a_changed_byte_of_any_file_is_found(name, run):
    flip(run / name)
    assert Path(name).name in " ".join(wrong(run))
    assert call("verify", run).exit_code == 1


def test_every_kind_of_file_of_a_run_is_tried(start):
    names = {file.relative_to(start).as_posix() for file in start.rglob("*") if file.is_file()}
    kinds = {name.replace("c2", "c0") for name in names} - {"ledger.db", "lock"}
    assert kinds <= set(FILES)


@pytest.mark.parametrize("name", ["shared.safetensors", "federation.toml"])
def test_a_missing_file_is_found(name, run):
    (run / name).unlink()
    assert name in " ".join(wrong(run))


@pytest.mark.parametrize("name", ["clients/c0/old.safetensors", "note.txt"])
def test_a_file_that_the_run_did_not_write_is_found(name, run):
    (run / name).write_bytes(b"x")
    assert wrong(run) == [f"{name}: the ledger does not know this file."]


ATTESTED = (
    *("requests", "audits", "files", "chain", "meta"),
    *("clients", "preservation", "recalibrations", "audit_clients"),
)


@pytest.mark.parametrize("table", ATTESTED)
def test_a_changed_column_of_a_row_is_found(table, run, tmp_path):
    """Each column of the tables that are attested, one after the other."""
    with closing(sqlite3.connect(run / "ledger.db")) as database:
        columns = [row[1:3] for row in database.execute(f"PRAGMA table_info({table})")]
    for number, (name, kind) in enumerate(columns):
        other = copied(run, tmp_path / f"{table}-{number}")
        changed = f"{name} + 1000" if kind == "INTEGER" else f"'x' || coalesce({name}, '')"
        with closing(sqlite3.connect(other / "ledger.db")) as database:
            database.execute(f"UPDATE {table} SET {name} = {changed}")
            database.commit()
        assert wrong(other), name


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE meta SET value = 'f' WHERE key = 'settings_sha256'",
        "DELETE FROM meta WHERE key = 'lengths_since'",
        "DELETE FROM preservation",
        "INSERT INTO nodes VALUES ('c0', 'key', 'now')",
        "INSERT INTO barred VALUES ('key', 1)",
    ],
)
def test_a_changed_fact_is_found(sql, run):
    with closing(sqlite3.connect(run / "ledger.db")) as database:
        database.execute(sql)
        database.commit()
    assert wrong(run)


def test_another_name_in_an_index_is_found(run):
    """Each table and its indices must agree: queries read the one or the other."""
    with closing(sqlite3.connect(run / "ledger.db")) as database:
        sql = "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_clients_1'"
        ((page,),) = database.execute(sql)
        ((size,),) = database.execute("PRAGMA page_size")
    data = (run / "ledger.db").read_bytes()
    flip(run / "ledger.db", data.index(b"c0", (page - 1) * size) + 1)
    assert wrong(run)


def test_a_changed_byte_of_what_is_attested_in_the_ledger_is_found(run):
    """Wherever a text of an attested table is in the file, and in the head of every page."""
    before = (run / "ledger.db").read_bytes()
    with closing(sqlite3.connect(run / "ledger.db")) as database:
        ((size,),) = database.execute("PRAGMA page_size")
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
        tables = [name for name in tables if not name.startswith("sqlite_")]
        texts = {name: texts_of(database, name) for name in tables}
    unsigned = "".join(text for name in tables if name not in ATTESTED for text in texts[name])
    signed = {text for name in ATTESTED for text in texts[name] if text not in unsigned}
    places = {before.index(text[:40].encode()) + 3 for text in signed if len(text) > 7}
    assert len(places) > 40
    for place in {*sorted(places)[::2], *range(0, len(before), size)}:
        flip(run / "ledger.db", place)
        assert wrong(run), place
        (run / "ledger.db").write_bytes(before)


def texts_of(database, table):
    rows = database.execute(f"SELECT * FROM {table}").fetchall()
    return [value for row in rows for value in row if isinstance(value, str)]


def test_a_changed_tensor_with_a_changed_hash_is_found(run):
    flip(run / "shared.safetensors")
    with closing(sqlite3.connect(run / "ledger.db")) as database:
        sql = "UPDATE files SET sha256 = ? WHERE path = 'shared.safetensors'"
        database.execute(sql, (digest_file(run / "shared.safetensors"),))
        database.commit()
    assert wrong(run) == ["The list of files in the ledger: not what entry 10 attests."]


def test_a_changed_verdict_is_not_shown_as_the_verdict(run, tmp_path):
    """Who changes one row changes neither the first screen of the report nor the exit code."""
    verdict = json.loads(succeed("status", run, "--json"))["requests"][0]["audit"]["verdict"]
    with closing(sqlite3.connect(run / "ledger.db")) as database:
        sql = "UPDATE requests SET outcome = replace(outcome, ?, '\"forgotten\"')"
        database.execute(sql, (f'"{verdict}"',))
        database.commit()
    page = tmp_path / "page.md"
    report = call("report", run, "--format", "md", "--output", page)
    assert report.exit_code == 1
    assert "## Verdict: ! not as it was signed" in page.read_text()
    status = call("status", run)
    assert status.exit_code == 1
    assert status.stdout.splitlines()[0].startswith("WRONG")
    assert json.loads(call("status", run, "--json").stdout)["chain"]["wrong"]


def test_the_report_links_to_the_certificate_and_shows_the_fingerprint(run, tmp_path):
    for form, link in (("html", 'href="{}"'), ("md", "]({})")):
        page = tmp_path / f"page.{form}"
        succeed("report", run, "--format", form, "--output", page)
        assert link.format("run/certificates/request-1.json") in page.read_text()
        assert fingerprint(public_hex(make_key(usual_key_file()))) in page.read_text()


# Certificates


def test_others_tools_verify_a_certificate(run, public):
    """DSSE by hand: the signature is over the type and the payload, by the operator's key."""
    envelope = json.loads(certificate_of(run).read_text())
    payload = base64.b64decode(envelope["payload"])
    kind = envelope["payloadType"].encode()
    signed = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
    signature = base64.b64decode(envelope["signatures"][0]["sig"])
    load_pem_public_key(public.read_bytes()).verify(signature, signed)
    statement = json.loads(payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    (subject,) = statement["subject"]
    assert subject["digest"]["sha256"] == digest_file(run / "shared.safetensors")
    predicate = statement["predicate"]
    assert predicate["request"]["targets"] == ["c1"]
    assert predicate["request"]["asked"]["by"] == "case 17"
    assert predicate["limits"]
    assert '"c0"' not in payload.decode()


def test_every_byte_of_a_certificate_counts(run, tmp_path):
    text = certificate_of(run).read_bytes()
    other = tmp_path / "other.json"
    for place in range(0, len(text), 7):
        other.write_bytes(text)
        flip(other, place)
        (check,), statement = read_certificate(other)
        assert (check.holds, statement) == (False, None), place


def test_every_field_of_a_certificate_is_signed(run, tmp_path):
    envelope = json.loads(certificate_of(run).read_text())
    statement = json.loads(base64.b64decode(envelope["payload"]))
    other = tmp_path / "other.json"
    for part in (statement, statement["predicate"], statement["predicate"]["request"]):
        for name, value in part.items():
            part[name] = "forged"
            payload = json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()
            forged = {**envelope, "payload": base64.b64encode(payload).decode()}
            other.write_text(json.dumps(forged, indent=2) + "\n")
            assert read_certificate(other)[0][0].holds is False, name
            part[name] = value


def test_a_certificate_by_another_key_is_not_the_operators(run, public, tmp_path, monkeypatch):
    """Anybody can sign a certificate of this run with a key of his own."""
    key = tmp_path / "mine.key"
    make_key(key)
    monkeypatch.setenv(KEY_VARIABLE, str(key))
    accept(run)
    forged = tmp_path / "forged.json"
    forged.write_text(certify(run, 1)[1])
    assert call("verify", forged).exit_code == 0
    result = call("verify", forged, "--public-key", public)
    assert result.exit_code == 1
    assert "is not the one that you gave" in " ".join(result.output.split())


def forged(run, change, key):
    """The run's certificate with other words, signed with this key."""
    statement = json.loads(base64.b64decode(json.loads(certificate_of(run).read_text())["payload"]))
    public = public_hex(key)
    statement["predicate"]["signer"] = {"public_key": public, "fingerprint": fingerprint(public)}
    change(statement["predicate"])
    certificate_of(run).write_text(sign(statement, key))


CHANGES = {
    "targets": lambda it: it["request"].update(targets=["c0"]),
    "who asked": lambda it: it["request"].update(asked={"by": "somebody else"}),
    "what was erased": lambda it: it["removal"].update(erased={"files": 99}),
    "tensors": lambda it: it["removal"].update(shared_sha256_after="0" * 64),
    "a verdict": lambda it: it.update(evidence=[{"source": "removal", "verdict": ALL_GONE}]),
    "another request": lambda it: it["request"].update(number=7),
    "no chain": lambda it: it.pop("chain"),
    "an odd form": lambda it: it.update(removal=[], chain=[]),
}
ALL_GONE = {"verdict": "forgotten", "sentence": "All gone."}


@pytest.mark.parametrize("name", CHANGES)
def test_a_certificate_that_says_something_else_than_the_run_is_found(name, run, public):
    """The operator's own signature is on it, but the ledger does not say so."""
    forged(run, CHANGES[name], make_key(usual_key_file()))
    (sentence,) = wrong(run)
    assert "request-1.json" in sentence
    assert call("verify", run, "--public-key", public).exit_code == 1


def test_a_certificate_of_any_key_is_not_one_of_this_run(run, public, tmp_path):
    given = shutil.copy(certificate_of(run), tmp_path / "given.json")
    forged(run, lambda _predicate: None, make_key(tmp_path / "mine.key"))
    for options in (["--public-key", public], []):
        assert "by another key" in succeed_or_not("verify", run, *options)
        assert call("verify", run, *options).exit_code == 1
    shutil.move(certificate_of(run), tmp_path / "forged.json")
    assert call("verify", run, "--certificate", tmp_path / "forged.json").exit_code == 1
    assert call("verify", run, "--certificate", given).exit_code == 0


def test_a_certificate_holds_when_more_was_found_out_since(run):
    with closing(Ledger(run / "ledger.db")) as ledger:
        evidence = {"kind": "audit", "made_at": "now", "targets": ["c1"], "verdict": "?"}
        more = {"command": "pfedul audit", "level": "quick", "options": {}}
        write_audit(ledger, {**evidence, **more, "hashes": NO_HASHES}, {})
    assert not wrong(run)


NO_HASHES = {"shared_before": "", "shared_after": "", "state_after": ""}


def test_it_says_what_is_certified(run):
    words = succeed_or_not("verify", certificate_of(run))
    assert "request 1: to forget c1, asked for by case 17" in words
    assert "by pfedul" in words
    assert "Evidence (removal): " in words
    assert "Its limits: " in words


def test_a_certificate_contradicts_a_history_that_was_written_anew(run, tmp_path):
    """The operator has the key: only who was given the old head can tell."""
    given = shutil.copy(certificate_of(run), tmp_path / "given.json")
    other = tmp_path / "other"
    with create(other, rounds=2, personalization="fedper") as federation:
        federation.train()
        federation.forget("c2", method="none", allow_unchanged=True)
        federation.train(8)
    assert not wrong(other)
    words = succeed_or_not("verify", other, "--certificate", given)
    assert "it was rewritten, or is another run's" in words


def succeed_or_not(*words):
    return " ".join(call(*words).output.split())


def test_without_a_removal_nothing_is_certified(tmp_path):
    with create(tmp_path / "run"):
        pass
    assert "no such removal" in refuse("certificate", tmp_path / "run")


def test_of_a_changed_run_nothing_is_certified(run):
    with closing(sqlite3.connect(run / "ledger.db")) as database:
        database.execute("UPDATE requests SET targets = '[\"c9\"]'")
        database.commit()
    assert "nothing is certified" in refuse("certificate", run)


# Keys


def test_the_key_is_shown_and_another_is_made_where_it_is_wanted(tmp_path, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "")
    shown = json.loads(succeed("key", "--json"))
    assert shown["key"] == str(usual_key_file())
    made = tmp_path / "other.key"
    words = refuse("--key", made, "status", tmp_path / "nothing")
    assert "There is no run" in words
    other = json.loads(succeed("--key", made, "key", "--json"))
    assert other["fingerprint"] != shown["fingerprint"]
    made.chmod(0o644)
    assert "chmod 600" in refuse("--key", made, "key")
