"""After a removal: clients that were away, clients that come back, records that were deleted."""

import json

import pytest
import torch

from helpers.forgetting_kill import TARGET, copied, deep, deep_again, trained
from helpers.told import AtStage
from helpers.toys import client_data, tensor_digests
from pfedul import PfedulError
from pfedul.base.tensorfile import read_file
from pfedul.status import read_status

STRONG = {"correction": "trust-region:clip=0.3"}
PAPER = {"correction": "paper"}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A trained run."""
    return trained(tmp_path_factory.mktemp("later") / "run", rounds=2)


@pytest.fixture
def run(start, tmp_path):
    return copied(start, tmp_path / "run")


def waiting(folder):
    return [request["not_recalibrated"] for request in read_status(folder)["requests"]]


# Away


@pytest.mark.parametrize("name", ["fedper", "ditto", "fedbn"])
@pytest.mark.parametrize("correction", ["paper", "trust-region:clip=0.3"])
def test_recalibrated_later_it_is_as_if_it_had_been_there(name, correction, tmp_path):
    start = trained(tmp_path / "start", rounds=1, personalization=name)
    there, later = (copied(start, tmp_path / folder) for folder in ("there", "later"))
    with deep_again(there) as federation:
        federation.forget(TARGET, correction=correction)
    with deep_again(later) as federation:
        outcome = federation.forget(TARGET, correction=correction, away=["c2"])
    assert outcome.not_recalibrated == ("c2",)
    assert waiting(later) == [["c2"]]
    personal = "clients/c2/personal.safetensors"
    assert tensor_digests(later)[personal] == tensor_digests(start)[personal]
    with deep_again(later) as federation:
        assert federation.recalibrate() == ["c2"]
    assert tensor_digests(later) == tensor_digests(there)
    assert waiting(later) == [[]]


def test_fewer_bytes_are_broadcast_while_somebody_is_away(start, tmp_path):
    sent = []
    for away in ([], ["c0"], ["c0", "c2"]):
        with deep_again(copied(start, tmp_path / str(len(away)))) as federation:
            sent.append(federation.forget(TARGET, away=away).bytes_broadcast)
    assert sent[0] == 3 * sent[2]
    assert sent[1] == 2 * sent[2]


def test_recalibrating_twice_does_nothing_the_second_time(run):
    with deep_again(run) as federation:
        assert federation.recalibrate() == []
        federation.forget(TARGET, away=["c0", "c3"])
        assert sorted(federation.recalibrate()) == ["c0", "c3"]
        before = tensor_digests(run)
        assert federation.recalibrate() == []
    assert tensor_digests(run) == before


def test_a_client_that_was_away_and_is_forgotten_is_waited_for_no_more(run):
    with deep_again(run) as federation:
        federation.forget(TARGET, away=["c2"])
        federation.forget("c2")
        assert federation.recalibrate() == []
    assert waiting(run) == [[], []]


def test_without_recalibration_nobody_is_said_to_have_done_it(run):
    with deep_again(run) as federation:
        federation.forget(TARGET, no_recalibration=True)
        sql = "SELECT COUNT(*) FROM recalibrations WHERE done_at IS NOT NULL"
        assert federation.store.ledger.value(sql) == 0


def test_without_recalibration_nobody_is_waited_for(run):
    with deep_again(run) as federation:
        federation.forget(TARGET, no_recalibration=True, away=["c2"])
        federation.recalibrate()
    assert waiting(run) == [[]]


# Admission


def test_a_forgotten_client_is_refused_unless_admitted_as_a_new_one(run):
    with deep_again(run) as federation:
        federation.forget(TARGET)
    before = tensor_digests(run)
    with deep_again(run) as federation:
        with pytest.raises(PfedulError, match="'c1' was forgotten \\(request 1\\)"):
            federation.admit(TARGET)
        assert tensor_digests(run) == before
        federation.admit(TARGET, again=True)
        assert federation.clients == ["c0", "c1", "c2", "c3"]
        model = federation.bench.build_model().state_dict()
        personal = federation.personal(TARGET)
        assert set(personal) == {"head.weight", "head.bias"}
        assert all(torch.equal(personal[name], model[name]) for name in personal)
        assert TARGET not in federation.scores()
        sql = "SELECT joined_round FROM clients WHERE client = ?"
        assert federation.store.ledger.value(sql, TARGET) == 2
    assert not (run / f"records/fisher/{TARGET}.safetensors").exists()
    with deep_again(run) as federation:
        federation.train(3)
        assert TARGET in federation.scores()
    assert (run / f"records/fisher/{TARGET}.safetensors").exists()


def test_a_client_that_came_back_can_be_forgotten_again(run):
    with deep_again(run) as federation:
        federation.forget(TARGET)
    with deep_again(run) as federation:
        federation.admit(TARGET, again=True)
        federation.train(3)
        assert federation.forget(TARGET).request == 2
    with deep_again(run) as federation:
        assert federation.clients == ["c0", "c2", "c3"]
        with pytest.raises(PfedulError, match="request 2"):
            federation.admit(TARGET)


def test_who_is_there_or_has_no_data_cannot_be_admitted(run):
    before = tensor_digests(run)
    with deep_again(run) as federation:
        with pytest.raises(PfedulError, match="part of this run already"):
            federation.admit("c0")
        with pytest.raises(PfedulError, match="no data of a client 'x'"):
            federation.admit("x")
    assert tensor_digests(run) == before


def test_a_new_client_joins(run):
    with deep_again(run, data=client_data(5)) as federation:
        federation.admit("c4")
        federation.train(3)
        sql = "SELECT round FROM replies WHERE client = 'c4'"
        assert [row["round"] for row in federation.store.ledger.rows(sql)] == [3]


def test_a_forgotten_client_does_not_come_back_by_itself(run):
    """Its data are still given when the run is opened; nothing is done with them."""
    with deep_again(run) as federation:
        federation.forget(TARGET)
    with deep_again(run) as federation:
        federation.train(3)
        assert TARGET not in federation.clients
        assert TARGET not in federation.bench.data
    assert not [file for file in tensor_digests(run) if TARGET in file]


# Records


def test_all_records_can_be_deleted_with_a_request(run):
    files = {n: read_file(run / f"records/fisher/c{n}.safetensors") for n in (0, 2, 3)}
    with deep_again(run) as federation:
        federation.forget(TARGET, forget_records="all", **STRONG)
    assert sorted(file.name for file in (run / "records").rglob("*.safetensors")) == [
        "fisher-retained.safetensors"
    ]
    kept = read_file(run / "records/fisher-retained.safetensors")
    for name, tensor in kept.items():
        fresh = sum(file[name].double() for file in files.values()).float()
        assert torch.equal(tensor, fresh)
    before = tensor_digests(run)
    with deep_again(run) as federation:
        with pytest.raises(PfedulError, match="deleted with an earlier request"):
            federation.forget("c2")
        with pytest.raises(PfedulError, match="deleted with an earlier request"):
            federation.scores()
        assert federation.store.ledger.value("SELECT COUNT(*) FROM requests") == 1
    assert tensor_digests(run) == before
    with deep_again(run) as federation:
        federation.train(3)
        assert len(federation.forget("c2", **STRONG).plan["layers"]) == 3


def test_files_that_are_deleted_with_all_records_are_counted_once(run):
    obsolete = [
        *(run / "records").rglob("*.safetensors"),
        run / f"clients/{TARGET}/personal.safetensors",
    ]
    sizes = [file.stat().st_size for file in obsolete]
    with deep_again(run) as federation:
        erased = federation.forget(TARGET, forget_records="all").erased
    assert erased["files"] == len(sizes)
    assert erased["bytes"] == sum(sizes)


def test_noise_on_the_fisher_as_it_is_read_changes_the_plan_the_same_way_each_time(start):
    with deep_again(start) as federation:
        plain, one, two = (
            federation.plan(TARGET, **PAPER, fisher_noise=noise, layers="all").as_json()
            for noise in (0.0, 1.0, 1.0)
        )
    assert json.dumps(one) == json.dumps(two)
    assert plain["layers"] != one["layers"]


def test_an_untrained_run_has_no_scores(tmp_path):
    with deep(tmp_path / "run") as federation, pytest.raises(PfedulError, match="not been trained"):
        federation.scores()


# Accuracies that are known already


def test_known_accuracies_are_used_only_if_they_are_of_these_very_tensors(run):
    with deep_again(run) as federation:
        known = {name: score.accuracy for name, score in federation.measure().clients.items()}
        asked = [[], []]
        first = federation.forget(
            TARGET, callbacks=[AtStage(lambda *told: asked[0].append(told))], **STRONG
        )
        now = {name: score.accuracy for name, score in federation.measure().clients.items()}
        second = federation.forget(
            "c2", callbacks=[AtStage(lambda *told: asked[1].append(told))], **STRONG
        )
    assert first.before == {client: known[client] for client in ("c0", "c2", "c3")}
    assert "evaluation" not in {stage for stage, _, _ in asked[0]}
    assert second.before == {client: now[client] for client in ("c0", "c3")}
    assert "evaluation" in {stage for stage, _, _ in asked[1]}


@pytest.mark.parametrize("correction", ["trust-region:clip=0.3", "reset:fraction=0.5"])
def test_accuracies_after_are_those_of_the_committed_tensors(run, correction):
    with deep_again(run) as federation:
        outcome = federation.forget(TARGET, correction=correction, away=["c3"])
        now = {name: score.accuracy for name, score in federation.measure().clients.items()}
    assert outcome.after == now
