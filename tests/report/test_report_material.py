"""What a report is made of, as it is read from run folders."""

import json

import pytest

from helpers.auditing import rehearse
from helpers.forgetting_kill import TARGET, copied, deep_again, trained
from helpers.told import AtStage
from helpers.toys import tensor_digests
from pfedul import PfedulError
from pfedul.report.material import read_material

STRONG = {"correction": "trust-region:clip=0.3"}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("material") / "run", rounds=1)


@pytest.fixture(scope="module")
def rehearsed(start, tmp_path_factory):
    run = copied(start, tmp_path_factory.mktemp("rehearsed") / "run")
    with deep_again(run) as federation:
        rehearse(federation, TARGET, oracles=1, **STRONG)
    return run


def test_before_anything_there_is_the_run_alone(start):
    before = tensor_digests(start), (start / "ledger.db").read_bytes()
    found = read_material(start)
    assert found["request"] is found["evidence"] is found["applies"] is None
    assert found["clients"] == {}
    assert found["run"]["rounds"] == 1
    assert found["settings"] == (start / "federation.toml").read_text()
    assert (tensor_digests(start), (start / "ledger.db").read_bytes()) == before


def test_before_a_removal_there_is_the_newest_rehearsal(rehearsed):
    found = read_material(rehearsed)
    assert found["request"] is found["applies"] is None
    assert found["evidence"]["targets"] == [TARGET]
    assert list(found["clients"]) == ["c0", "c2", "c3"]
    json.dumps(found, allow_nan=False)


def test_the_rehearsed_removal_carries_the_evidence(rehearsed, tmp_path):
    run = copied(rehearsed, tmp_path / "run")
    with deep_again(run) as federation:
        federation.forget(TARGET, **STRONG)
    found = read_material(run)
    assert found["applies"] == {"holds": True, "differences": []}
    assert found["request"]["targets"] == [TARGET]
    assert found["request"]["state_sha256_after"] == found["evidence"]["hashes"]["state_after"]
    json.dumps(found, allow_nan=False)


def test_another_removal_does_not_and_it_is_said_why(rehearsed, tmp_path):
    run = copied(rehearsed, tmp_path / "run")
    with deep_again(run) as federation:
        federation.forget(TARGET)
    found = read_material(run)["applies"]
    assert not found["holds"]
    assert any("the option correction was trust-region" in x for x in found["differences"])


def test_a_rehearsal_of_others_is_no_evidence_for_this_removal(rehearsed, tmp_path):
    run = copied(rehearsed, tmp_path / "run")
    with deep_again(run) as federation:
        federation.forget("c2", audit=False)
    found = read_material(run)
    assert found["evidence"] is None
    assert found["clients"] == {}


def test_each_request_is_found_by_its_number(rehearsed, tmp_path):
    run = copied(rehearsed, tmp_path / "run")
    with deep_again(run) as federation:
        federation.forget(TARGET, **STRONG)
        federation.forget("c2", **STRONG)
    assert read_material(run)["request"]["request"] == 2
    first = read_material(run, 1)
    assert first["applies"]["holds"]
    assert list(first["clients"]) == ["c0", "c3"]  # the one who left in turn is not in it
    assert "c2" not in first["request"]["before"]
    with pytest.raises(PfedulError, match="no finished request 3 in this run; there are: 1, 2"):
        read_material(run, 3)


def test_a_pending_request_is_not_reported_as_done(start, tmp_path):
    run = copied(start, tmp_path / "run")

    def interrupt(stage, _done, _of):
        if stage == "recalibration":
            raise KeyboardInterrupt

    with deep_again(run) as federation, pytest.raises(KeyboardInterrupt):
        federation.forget(TARGET, callbacks=[AtStage(interrupt)])
    assert read_material(run)["request"] is None


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(PfedulError, match="not a pfedul run folder"):
        read_material(tmp_path)
