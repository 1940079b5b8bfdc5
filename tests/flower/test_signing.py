"""Receipts that are signed with the node's own key, and those that are not."""

import json
import sqlite3

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

pytest.importorskip("flwr")

from helpers.flower_grid import with_key
from pfedul.engine.flower.wire import open_words, pack_words
from pfedul.errors import PfedulError
from pfedul.flower.signing import RECEIPT, REQUEST, has_signed, read_node_key, read_public, signed
from pfedul.status import read_status

NOT_CONFIRMED = {"c1": "erasure at the client not confirmed"}


@pytest.fixture
def key(grid, tmp_path):
    """The file of the key of c1's node, which signs."""
    return with_key(grid.of("c1"), tmp_path)


def erasures(operate):
    with sqlite3.connect(operate.run / "ledger.db") as database:
        return database.execute("SELECT receipt FROM erasures").fetchall()


def changed(**words):
    """Change the receipt on its way."""

    def spoil(kind, content):
        if kind != "query.erase":
            return content
        return pack_words("erase", {**open_words("erase", content), **words})

    return spoil


@pytest.mark.usefixtures("key")
def test_a_receipt_signed_by_the_node_confirms_and_says_so(operate):
    operate("train")
    state = operate("forget", client="c1")["erased_at_client"]["c1"]
    assert state.startswith("confirmed 20")
    assert state.endswith(", signed by its node")
    assert read_status(operate.run)["requests"][0]["erased_at_client"]["c1"] == state
    ((receipt,),) = erasures(operate)
    assert json.loads(receipt)["signed"] is True


def test_an_unsigned_receipt_of_a_node_with_a_key_confirms_nothing(operate, grid, key):
    del grid.of("c1").config["key"]
    operate("train")
    assert operate("forget", client="c1")["erased_at_client"] == NOT_CONFIRMED
    assert any("its receipt is not signed with the key" in line for line in operate.told)
    grid.of("c1").config["key"] = str(key)  # the folder is gone; the receipt is kept there
    operate("evaluate")
    state = read_status(operate.run)["requests"][0]["erased_at_client"]["c1"]
    assert state.endswith(", signed by its node")


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize(
    "forgery",
    [
        {"signature": ""},
        {"signature": "00" * 70},
        {"signature": None},
        {"files": 99},
        {"erased_at": "2026-01-01"},
        {"client": "c0"},
        {"more": 1},
        {"more": float("nan")},
    ],
)
def test_a_receipt_that_was_changed_on_its_way_confirms_nothing(forgery, operate, grid):
    grid.of("c1").spoil = changed(**forgery)
    operate("train")
    assert operate("forget", client="c1")["erased_at_client"] == NOT_CONFIRMED


@pytest.mark.usefixtures("key")
def test_a_receipt_signed_with_another_key_confirms_nothing(operate, grid, tmp_path):
    other = with_key(grid.of("c0"), tmp_path)
    operate("train")
    grid.of("c1").config["key"] = str(other)
    assert operate("forget", client="c1")["erased_at_client"] == NOT_CONFIRMED


def test_a_key_that_cannot_be_read_is_said(operate, key):
    operate("train")
    key.write_text("no key")
    assert operate("forget", client="c1")["erased_at_client"] == NOT_CONFIRMED
    assert any("is not a readable key of a node" in line for line in operate.told)


def test_a_signature_is_of_one_kind_of_words(grid, key):
    words = signed(RECEIPT, {"client": "c1"}, read_node_key(key))
    public = read_public(grid.of("c1").key)
    assert has_signed(RECEIPT, words, public)
    assert not has_signed(REQUEST, words, public)


def test_a_key_of_another_kind_confirms_nothing():
    public = Ed25519PrivateKey.generate().public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    with pytest.raises(PfedulError, match="cannot sign here"):
        read_public(public.public_bytes(serialization.Encoding.PEM, form))
