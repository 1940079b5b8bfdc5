"""The smallest whole story on a real deployment: a node dies, the run goes on, a client is
forgotten, everything ends.
"""

import json
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr")

from helpers.flower_deploying import (
    act,
    answer,
    begun,
    bring_down,
    committed,
    finish,
    held_by,
    kill_node,
    node_folder,
    notice_death,
    personal_of,
    pids_of,
    result_in,
    rows,
    shared_of,
    until,
)
from helpers.flower_story import SMALL, STRONG, play, twin
from pfedul.status import read_status


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """Three nodes train; one is killed in the second round; another is forgotten."""
    run = tmp_path_factory.mktemp("story") / "run"
    try:
        answer("up", run, "--nodes", "3")
        with begun(run, "train", rounds=2, **SMALL) as training:
            until(lambda: committed(run) == 1, 300)
            kill_node(run, "client-02")
            notice_death(run, "client-02")
            finish(training)
        trained = shared_of(run)
        forgotten = act(run, "forget", client="client-01", nodes_deadline=0.1, **STRONG)
        evaluated = act(run, "evaluate", nodes_deadline=0.1)
        answer("down", run)
        yield SimpleNamespace(
            run=run,
            trained=trained,
            outcome=result_in(forgotten, "forget"),
            evaluation=result_in(evaluated, "evaluate"),
        )
    finally:
        bring_down(run)


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """What must come out, played without Flower."""
    run = tmp_path_factory.mktemp("local") / "run"
    with twin(run, rounds=1) as federation:
        federation.train()
        play(federation, "client-00", "client-01")
        trained = shared_of(run)
        outcome = federation.forget("client-01", away=["client-02"], **STRONG).as_json()
        evaluation = federation.evaluate()
    return SimpleNamespace(run=run, trained=trained, outcome=outcome, evaluation=evaluation)


def test_the_run_goes_on_without_a_node_that_was_killed(story):
    # Of client-01, which was forgotten since, nothing is counted any more.
    assert rows(story.run, "SELECT round, replies FROM rounds") == [(1, 2), (2, 1)]
    sql = "SELECT reason FROM refusals WHERE client = 'client-02' AND round = 2"
    reasons = [reason for (reason,) in rows(story.run, sql)]
    assert any("not connected" in reason or "error 5" in reason for reason in reasons), reasons
    results = rows(story.run, "SELECT action, result FROM actions ORDER BY id")
    assert results == [("train", "done"), ("forget", "done"), ("evaluate", "done")]


def test_all_bits_are_those_of_the_inline_engine(story, local):
    assert story.trained == local.trained
    assert shared_of(story.run) == shared_of(local.run)
    for client in ("client-00", "client-02"):
        assert held_by(story.run, client) == personal_of(local.run, client)


def test_the_plan_and_the_outcome_are_those_of_the_inline_engine(story, local):
    same = ("plan", "options", "shared_sha256_before", "shared_sha256_after", "rounds")
    for key in (*same, "not_recalibrated"):
        assert story.outcome[key] == local.outcome[key], key
    assert story.outcome["after"] == {"client-00": local.outcome["after"]["client-00"]}


def test_the_forgotten_client_has_nothing_left_and_its_key_is_barred(story):
    state = story.outcome["erased_at_client"]["client-01"]
    assert state.startswith("confirmed")
    assert state.endswith(", signed by its node")
    assert not node_folder(story.run, "client-01").exists()
    ((receipt,),) = rows(story.run, "SELECT receipt FROM erasures")
    assert json.loads(receipt)["files"] >= 1
    assert len(rows(story.run, "SELECT * FROM barred")) == 1
    for table in ("clients", "replies", "evaluations", "nodes"):
        assert not rows(story.run, f"SELECT * FROM {table} WHERE client = 'client-01'")


def test_who_was_away_has_yet_to_recalibrate(story):
    (request,) = read_status(story.run)["requests"]
    assert request["status"] == "done"
    assert request["not_recalibrated"] == ["client-02"]


def test_the_remaining_client_is_evaluated_as_inline(story, local):
    wanted = local.evaluation.clients["client-00"].accuracy
    (found,) = story.evaluation["clients"]
    assert (found["client"], found["accuracy"]) == ("client-00", wanted)


def test_nothing_is_left_running(story):
    assert pids_of(story.run) == set()
