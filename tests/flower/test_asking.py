"""Who may ask for a removal: the node itself, with its signature, or an operator with a reason."""

import base64
import json

import pytest

pytest.importorskip("flwr")

from helpers.flower_grid import with_key
from pfedul import PfedulError
from pfedul.flower.asking import write_request
from pfedul.proof.certificate import certify
from pfedul.status import read_status


@pytest.fixture
def keys(grid, tmp_path):
    """The key files of all nodes, which sign."""
    return {client: with_key(grid.of(client), tmp_path) for client in ("c0", "c1", "c2")}


@pytest.fixture
def request_file(operate, keys, tmp_path):
    """A run, and a request of c1 to be forgotten, signed by its node."""
    operate("train")
    file = tmp_path / "request.json"
    write_request(file, keys["c1"], tmp_path / "nodes/c1", "c1", "GDPR Art. 17", "2027-01-01")
    return file


def asked(operate):
    return read_status(operate.run)["requests"][0]["asked"]


def test_a_node_asks_to_be_forgotten(operate, request_file):
    outcome = operate("forget", signed_request=str(request_file))
    assert outcome["targets"] == ["c1"]
    wanted = {"by": "c1, signed by its node", "ground": "GDPR Art. 17", "due": "2027-01-01"}
    assert asked(operate) == wanted
    envelope = json.loads(certify(operate.run, None)[1])
    statement = json.loads(base64.b64decode(envelope["payload"]))
    signed = statement["predicate"]["request"]["signed_by_node"]
    assert signed == json.loads(request_file.read_text())
    assert operate("forget", signed_request=str(request_file))["request"] == outcome["request"]


def test_a_nodes_request_that_is_refused_stays(operate, request_file):
    """It is the node's, by its signature; the method is the operator's choice."""
    with pytest.raises(PfedulError, match="keeps no"):
        operate("forget", signed_request=str(request_file), method="sifu")
    (request,) = read_status(operate.run)["requests"]
    assert request["status"] == "refused"
    assert request["asked"]["by"] == "c1, signed by its node"


@pytest.mark.parametrize("key", ["federation", "client", "ground", "due", "asked_at", "public_key"])
def test_a_request_that_was_changed_is_refused(key, operate, request_file):
    words = json.loads(request_file.read_text())
    changed = {"client": "c2"}.get(key, words[key] + "x")
    request_file.write_text(json.dumps({**words, key: changed}))
    with pytest.raises(PfedulError, match=r"request\.json"):
        operate("forget", signed_request=str(request_file))
    assert read_status(operate.run)["requests"] == []


def test_a_node_cannot_ask_for_another(operate, request_file, keys, tmp_path):
    write_request(request_file, keys["c0"], tmp_path / "nodes/c1", "c1", "a lie")
    with pytest.raises(PfedulError, match="is not signed with the key of c1's node"):
        operate("forget", signed_request=str(request_file))


def test_a_request_to_another_federation_is_refused(operate, request_file, keys, tmp_path):
    (tmp_path / "other" / "f" / "c1").mkdir(parents=True)
    write_request(request_file, keys["c1"], tmp_path / "other", "c1", "a mistake")
    with pytest.raises(PfedulError, match="is a request to another federation"):
        operate("forget", signed_request=str(request_file))


def test_a_request_is_about_the_client_that_signed_it_alone(operate, request_file):
    with pytest.raises(PfedulError, match="asks to forget 'c1', not c2"):
        operate("forget", client="c2", signed_request=str(request_file))


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 9000, "\x00", '{"client": 1}'])
def test_a_file_that_is_no_request_is_refused(text, operate, request_file):
    request_file.write_text(text)
    with pytest.raises(PfedulError, match=r"cannot be read|is not a request"):
        operate("forget", signed_request=str(request_file))


@pytest.mark.parametrize("given", [{"by": ""}, {"ground": ""}])
def test_an_operator_must_say_who_asks_and_why(given, operate):
    operate("train")
    with pytest.raises(PfedulError, match="Say who asks for the removal and why"):
        operate("forget", client="c1", **given)
    assert read_status(operate.run)["requests"] == []


def test_what_the_operator_says_is_kept(operate):
    operate("train")
    operate("forget", client="c1", by="case 9", ground="contract ended", due="2027-02-03")
    assert asked(operate) == {"by": "case 9", "ground": "contract ended", "due": "2027-02-03"}


def test_a_folder_that_does_not_say_which_federation_it_is_is_said(keys, tmp_path):
    with pytest.raises(PfedulError, match="for 0 federations"):
        write_request(tmp_path / "r.json", keys["c1"], tmp_path / "none", "c1", "why")
