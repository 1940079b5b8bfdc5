"""Whose word a chain is: nothing is signed on top of what the operator's key did not sign last."""

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from helpers.commands import call, refuse, succeed
from helpers.forgetting_kill import copied
from helpers.toys import create, reopen
from pfedul import PfedulError
from pfedul.base.keys import (
    KEY_VARIABLE,
    make_key,
    public_hex,
    public_pem,
    read_key,
    usual_key_file,
)
from pfedul.proof.certificate import certify
from pfedul.proof.envelope import read_envelope, statement_of
from pfedul.store import chain as chains
from pfedul.store.attested import read_chain
from pfedul.store.ledger import Ledger
from pfedul.store.memory import Memory
from pfedul.store.requests import REFUSED, end_request, file_request
from pfedul.store.store import Store
from pfedul.store.takeover import accept
from pfedul.store.trust import made_by_this_operator

NOT_LAST = "does not go on from what your key signed last"
OTHERS = "is signed by the key [0-9a-f]{64}, and yours is another"


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A run with an honoured request, and one that was refused at its end."""
    run = tmp_path_factory.mktemp("trust") / "run"
    with create(run, rounds=1) as federation:
        federation.train()
        federation.forget("c1", method="none", allow_unchanged=True)
        refused = file_request(federation.store.ledger, ["c2"], {}, {})
        end_request(federation.store.ledger, refused, REFUSED, "no")
    return run


@pytest.fixture
def run(start, tmp_path):
    """A copy that this operator has opened."""
    run = copied(start, tmp_path / "run")
    reopen(run).close()
    return run


@pytest.fixture
def public(tmp_path):
    file = tmp_path / "operator.pub"
    file.write_text(public_pem(public_hex(make_key(usual_key_file()))))
    return file


@pytest.fixture
def other_key(tmp_path):
    make_key(tmp_path / "other.key")
    return tmp_path / "other.key"


def read(run, question=read_chain):
    with closing(Ledger(run / "ledger.db", read_only=True)) as ledger:
        return question(ledger)


def statement(text):
    return statement_of(read_envelope(text))


def database_of(run):
    database = sqlite3.connect(run / "ledger.db", isolation_level=None)
    database.row_factory = sqlite3.Row
    return closing(database)


FORGERY = "UPDATE requests SET outcome = replace(outcome, 'none', 'FORGED') WHERE request = 1"


def signed_anew(run, key):
    """Another verdict, and the whole chain signed with somebody else's key."""
    with database_of(run) as database:
        database.execute(FORGERY)
        entries = [chains.Entry(**row) for row in database.execute("SELECT * FROM chain")]
        database.execute("DELETE FROM chain")
        previous = chains.START
        for entry in entries:
            body = entry.facts
            if entry.salt is not None:
                body["sha256"] = chains.rows_digest(database, entry.about, entry.salt)
            draft = replace(entry, body=chains.canonical(body), previous=previous, hash="")
            draft = replace(draft, public_key=public_hex(key), signature="")
            previous = chains._hash(draft)
            signature = key.sign(chains._message(previous)).hex()
            chains._insert(database, replace(draft, hash=previous, signature=signature))


def downgraded(run):
    """Another verdict, and a ledger as a version without a chain wrote it."""
    with database_of(run) as database:
        database.execute(FORGERY)
        database.execute("DROP TABLE chain")
        database.execute("DROP TABLE admissions")
        database.execute("UPDATE meta SET value = '3' WHERE key = 'format'")


def cut(run):
    """The refused request and its entries taken away: what is left is whole and signed."""
    with database_of(run) as database:
        database.execute("DELETE FROM requests WHERE request = 2")
        database.execute(
            "DELETE FROM chain WHERE entry > (SELECT MAX(entry) FROM chain"
            " WHERE about NOT LIKE '%requests%')"
        )


@pytest.mark.parametrize("attack", ["cut", "downgrade", "signed anew"])
def test_a_forged_history_is_not_signed(attack, run, public, other_key):
    if attack == "signed anew":
        signed_anew(run, read_key(other_key))
    else:
        {"cut": cut, "downgrade": downgraded}[attack](run)
    before = (run / "ledger.db").read_bytes()
    words = OTHERS if attack == "signed anew" else NOT_LAST
    with pytest.raises(PfedulError, match=words):
        reopen(run)
    assert (run / "ledger.db").read_bytes() == before
    refuse("certificate", run)
    for options in ([], ["--public-key", public]):
        result = call("verify", run, *options)
        assert result.exit_code == 1
        assert NOT_LAST in " ".join(result.output.split())
    assert NOT_LAST in " ".join(call("status", run).output.split())


def test_status_and_report_say_that_a_key_is_not_yours(run, other_key, tmp_path):
    assert "which is not yours" not in succeed("status", run)
    signed_anew(run, read_key(other_key))
    assert "which is not yours" in call("status", run).output
    moved = shutil.move(run, tmp_path / "moved")
    assert "which is not yours" in succeed("status", moved)
    page = tmp_path / "page.html"
    succeed("report", moved, "--output", page)
    assert "is not that of who made this page" in page.read_text()


def test_an_older_copy_at_its_place_is_accepted_only_explicitly(run, tmp_path):
    older = copied(run, tmp_path / "backup")
    with reopen(run) as federation:
        federation.train(2)
    shutil.rmtree(run)
    shutil.copytree(older, run)
    with pytest.raises(PfedulError, match=NOT_LAST) as refusal:
        reopen(run)
    assert f"pfedul key --accept {run}" in str(refusal.value)
    assert "is taken over as it is" in succeed("key", "--accept", run)
    with reopen(run) as federation:
        federation.train(2)
    assert "accepted" in [entry.kind for entry in read(run)]
    assert "accepts a state" in " ".join(succeed("verify", run).split())
    assert "accepts a state" in json.dumps(statement(certify(run, 1)[1])["predicate"]["limits"])
    assert "as your key signed it last" in succeed("key", "--accept", run)


def test_a_configuration_that_was_edited_is_signed_only_explicitly(run):
    """That a split is random decides what an audit may conclude."""
    file = run / "federation.toml"
    file.write_text(file.read_text().replace("random_split = false", "random_split = true"))
    before = read(run)
    with pytest.raises(PfedulError, match="is not the file that was signed") as no:
        reopen(run)
    assert f"pfedul key --accept {run}" in str(no.value)
    assert read(run) == before
    assert "is taken over as it is" in succeed("key", "--accept", run)
    with reopen(run) as federation:
        assert federation.settings.random_split
    assert "accepts a state" in " ".join(succeed("verify", run).split())


def test_a_run_without_its_configuration_is_a_sentence(run):
    (run / "federation.toml").unlink()
    assert "federation.toml" in refuse("train", run)
    assert "federation.toml" in refuse("key", "--accept", run)


def test_copies_of_a_run_go_their_own_ways(run, tmp_path):
    other = copied(run, tmp_path / "other")
    for number in (2, 3):
        for place in (run, other):
            with reopen(place) as federation:
                federation.train(number)
    moved = other.rename(tmp_path / "moved")
    reopen(moved).close()


@pytest.fixture
def older(run, tmp_path):
    """A copy at a new place, made before the original went on."""
    older = copied(run, tmp_path / "older")
    with reopen(run) as federation:
        federation.train(2)
    return older


def test_an_older_copy_at_a_new_place_goes_on_and_verify_says_so(older, run):
    before = succeed("verify", older)
    with reopen(older) as federation:
        federation.train(2)
    head = read(run)[-1].entry
    for words in (before, succeed("verify", older)):
        words = " ".join(words.split())
        assert f"At {run} your key signed entry {head} of this run, which is not in" in words
    assert "signed last" not in before


def test_an_older_copy_behind_a_link_at_the_place_of_a_run_is_refused(older, run, tmp_path):
    run.rename(tmp_path / "away")
    run.symlink_to(older)
    for place in (run, older):
        with pytest.raises(PfedulError, match=NOT_LAST):
            reopen(place)
    assert call("verify", run).exit_code == 1


def test_a_run_that_was_moved_to_another_disk_and_linked_goes_on(run, tmp_path):
    moved = run.rename(tmp_path / "disk")
    run.symlink_to(moved)
    with reopen(run) as federation:
        federation.train(2)
    older = copied(moved, tmp_path / "older")
    with reopen(run) as federation:
        federation.train(3)
    shutil.rmtree(moved)
    older.rename(moved)
    with pytest.raises(PfedulError, match=NOT_LAST):
        reopen(run)


def test_a_copy_is_moved_to_where_the_original_was(older, run):
    with reopen(older) as federation:
        federation.train(2)
    shutil.rmtree(run)
    older.rename(run)
    reopen(run).close()


def test_another_run_is_moved_to_where_a_run_was(run, tmp_path):
    with create(tmp_path / "another"):
        pass
    shutil.rmtree(run)
    (tmp_path / "another").rename(run)
    assert "signed last" not in succeed("verify", run)
    reopen(run).close()


def test_a_new_run_may_stand_where_another_was(run):
    shutil.rmtree(run)
    with create(run):
        pass
    reopen(run).close()


def test_a_run_of_another_key_is_taken_over_only_explicitly(run, other_key, monkeypatch, public):
    monkeypatch.setenv(KEY_VARIABLE, str(other_key))
    with pytest.raises(PfedulError, match=OTHERS) as refusal:
        reopen(run)
    assert f"pfedul key --accept {run}" in str(refusal.value)
    assert "is signed by the key" in refuse("certificate", run)
    succeed("key", "--accept", run)
    with reopen(run) as federation:
        federation.train(2)
    kinds = [entry.kind for entry in read(run)]
    assert kinds.index("accepted") == kinds.index("key changed") + 1
    mine = " ".join(succeed("verify", run).split())
    assert "which the earlier key did not sign" in mine
    theirs = call("verify", run, "--public-key", public)
    assert theirs.exit_code == 1
    assert "is not the one that you gave" in " ".join(theirs.output.split())


def test_who_trusts_a_key_trusts_the_one_that_it_handed_over_to(
    run, other_key, monkeypatch, public, tmp_path
):
    succeed("certificate", run)
    to = tmp_path / "other.pub"
    to.write_text(public_pem(public_hex(read_key(other_key))))
    succeed("key", "--hand-over", run, to)
    monkeypatch.setenv(KEY_VARIABLE, str(other_key))
    with pytest.raises(PfedulError, match=OTHERS):
        reopen(run)
    succeed("key", "--accept", run)
    words = " ".join(succeed("verify", run, "--public-key", public).split())
    assert "The key that you gave handed the run over" in words
    new = " ".join(call("verify", run, "--public-key", to).output.split())
    assert "which handed the run over to the one that you gave; ask whose key that was" in new
    assert "signed by another key than the one" not in new
    assert "which the earlier key did not sign" not in words


@pytest.fixture
def old(start, tmp_path):
    """As a version without a chain wrote it, at a place where no run was."""
    old = copied(start, tmp_path / "old")
    downgraded(old)
    return old


def test_a_run_of_an_older_format_is_taken_over_only_explicitly(old):
    before = (old / "ledger.db").read_bytes()
    with pytest.raises(PfedulError, match="signed nothing") as refusal:
        reopen(old)
    assert f"pfedul key --accept {old}" in str(refusal.value)
    succeed("status", old)
    refuse("certificate", old)
    assert (old / "ledger.db").read_bytes() == before
    assert "is taken over as it is" in succeed("key", "--accept", old)
    reopen(old).close()
    assert "as your key signed it last" in succeed("key", "--accept", old)


def test_of_an_older_format_it_is_said_that_nobody_signed_it_then(old):
    succeed("key", "--accept", old)
    limits = json.dumps(statement(certify(old, 1)[1])["predicate"]["limits"])
    for words in (" ".join(succeed("verify", old).split()), limits):
        assert "when the chain began" in words
        assert "accepts a state that the operator's key had not signed last" in words


def test_a_chain_that_was_taken_away_at_another_place_is_named(run, old):
    """The initial tensors show that it may be a copy of a run that your key signed."""
    with pytest.raises(PfedulError, match="same initial tensors") as refusal:
        reopen(old)
    assert str(run) in str(refusal.value)
    with database_of(old) as database:
        database.execute("UPDATE files SET sha256 = '00' WHERE path = 'init.safetensors'")
    with pytest.raises(PfedulError, match="signed nothing") as refusal:
        reopen(old)
    assert "same initial tensors" not in str(refusal.value)


def test_it_works_where_nothing_can_be_remembered(tmp_path, monkeypatch):
    """A key on a medium that is not writable; a file stands for that, as root may write all."""
    key = tmp_path / "fixed.key"
    make_key(key)
    key.with_name("fixed.key.runs").write_text("")
    monkeypatch.setenv(KEY_VARIABLE, str(key))
    with create(tmp_path / "run", rounds=1) as federation:
        federation.train()
    reopen(tmp_path / "run").close()
    assert "was not checked: no key of yours" in " ".join(
        succeed("verify", tmp_path / "run").split()
    )


def test_the_memory_is_the_operators_alone(run):
    memory = Memory(run)
    assert memory.folder.stat().st_mode & 0o777 == 0o700
    assert not memory.folder.is_relative_to(run)


def test_copies_below_a_run_are_not_remembered(start, tmp_path):
    before = len(list(Memory(start).folder.iterdir()))
    with closing(Store.open_unremembered(copied(start, tmp_path / "copy"))) as store:
        store.sign_settings()
        store.ledger.write([chains.Attestation("test")])
    assert len(list(Memory(start).folder.iterdir())) == before


def test_whether_the_operator_made_a_run(start, tmp_path, other_key, monkeypatch):
    assert read(start, made_by_this_operator)
    forged = copied(start, tmp_path / "forged")
    signed_anew(forged, read_key(other_key))
    assert not read(forged, made_by_this_operator)
    old = copied(start, tmp_path / "old")
    downgraded(old)
    assert not read(old, made_by_this_operator)
    accept(old)
    assert not read(old, made_by_this_operator)
    monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "none.key"))
    assert not read(start, made_by_this_operator)


@pytest.mark.parametrize(
    "content",
    ['{"entry": 1e999, "hash": "", "run": ""}', 100_000 * "[", "", "[]", '{"entry": null}'],
)
def test_a_damaged_memory_says_nothing(run, content):
    memory = Memory(run)
    (file,) = memory.folder.glob(f"{memory._place}-*.json")
    file.write_text(content)
    assert "was not checked: no key of yours" in " ".join(succeed("verify", run).split())
    reopen(run).close()
    assert json.loads(file.read_text())["entry"] == read(run)[-1].entry


@pytest.mark.parametrize("odd", ["**", "[", "../../*", ""])
def test_an_odd_hash_is_no_pattern(run, tmp_path, odd):
    with database_of(run) as database:
        database.execute("UPDATE chain SET hash = ? WHERE entry = 1", (odd,))
    moved = run.rename(tmp_path / "moved")
    assert "Entry 1 of the chain was changed" in " ".join(call("verify", moved).output.split())


def test_a_key_that_is_there_needs_no_folder_to_write_to(tmp_path):
    key = tmp_path / "keys/operator.key"
    made = make_key(key)
    (key.parent / f".{key.name}.lock").unlink(missing_ok=True)
    (key.parent / f".{key.name}.lock").mkdir()  # root could write to any folder
    assert public_hex(make_key(key)) == public_hex(made)


def test_without_a_home_there_is_a_sentence(monkeypatch):
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.raises(PfedulError, match="There is no home folder for the operator's key"):
        usual_key_file()
