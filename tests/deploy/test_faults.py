"""Faults on a real deployment: nodes that misbehave or are killed, a killed server and its app.

One deployment goes through everything, step by step; each step is a fixture that needs
the one before, and its twin in this process goes along.
"""

import json
import shutil
import tomllib
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr")

import tomli_w

from helpers.flower_deploying import (
    LOOPBACK_IN_KERNEL,
    act,
    answer,
    begun,
    bring_down,
    committed,
    environment_of,
    finish,
    held_by,
    kill,
    kill_node,
    listens_on,
    lock_is_free,
    node_folder,
    personal_of,
    pid_of,
    pids_of,
    program_of,
    result_in,
    rows,
    shared_of,
    the_server_app,
    until,
)
from helpers.flower_story import SMALL, STRONG, play, twin
from pfedul.engine.flower import QUIET
from pfedul.status import read_status

FAULTY = {"app": "faulty"}
SETTINGS = {**SMALL, "max_update_norm": 100.0}

FAULTS = {
    "client-01": {"2": "nan", "3": "names", "4": "norm"},
    "client-02": {"2": "shape", "3": "count", "4": "wait"},
}
"""Client -> round -> what its node does wrong."""

PROGRAMS = {
    *("flower-superlink", "flower-supernode", "flower-superexec"),
    *("flwr-serverapp", "flwr-clientapp", "flwr"),
}
"""All that runs while an action is under way."""

HANGS = "no answer within 60 s"

REASONS = {
    "client-01": {2: "not finite", 3: "is missing", 4: "is above 100"},
    "client-02": {2: "has shape", 3: "reports -5 samples", 4: HANGS},
}
"""Client -> round -> words of the refusal."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """Three nodes that can be told to misbehave, and their twin that knows no faults."""
    folder = tmp_path_factory.mktemp("faults")
    run = folder / "run"
    try:
        answer("up", run, "--nodes", "3")
        write_faulty_app(run)
        with twin(folder / "local", **SETTINGS) as federation:
            yield SimpleNamespace(run=run, local=federation)
    finally:
        bring_down(run)


def write_faulty_app(run):
    folder = run / "deployment" / "faulty"
    folder.mkdir()
    words = tomllib.loads((run / "deployment/app/pyproject.toml").read_text())
    words["tool"]["flwr"]["app"]["components"] = {
        "serverapp": "faulty:server",
        "clientapp": "faulty:client",
    }
    (folder / "pyproject.toml").write_text(tomli_w.dumps(words))
    shutil.copy(Path(__file__).with_name("faulty_app.py"), folder / "faulty.py")


def tell(run, client, faults):
    """What a node is to do wrong from now on, in place of what it was told before."""
    draft = node_folder(run, client) / "faults.draft"
    draft.write_text(json.dumps(faults))
    draft.replace(node_folder(run, client) / "faults.json")


def until_waiting(run, client, words):
    """Wait until a node is in the middle of this task, and stays there."""
    note = node_folder(run, client) / "waiting"
    until(lambda: note.is_file() and note.read_text() == words, 300)


def assert_same_bits(scene):
    twin = scene.local.store.path
    assert shared_of(scene.run) == shared_of(twin)
    for client in scene.local.clients:
        assert held_by(scene.run, client) == personal_of(twin, client), client


def replies_in(scene, number):
    ((replies,),) = rows(scene.run, "SELECT replies FROM rounds WHERE round = ?", number)
    return replies


def refused_in(scene, number):
    """Client -> why its reply was refused; an evaluation may have been refused later."""
    sql = "SELECT client, reason FROM refusals WHERE round = ? ORDER BY rowid DESC"
    return dict(rows(scene.run, sql, number))  # of several the first


def ended_fit(run, number):
    return rows(run, "SELECT 1 FROM traffic WHERE action = 'fit' AND number = ?", number)


def last_action(scene):
    return rows(scene.run, "SELECT action, result FROM actions ORDER BY id")[-1]


# Bad replies, after one round in which all is well


@pytest.fixture(scope="module")
def misbehaved(scene):
    for client, faults in FAULTS.items():
        tell(scene.run, client, {"fit": faults})
    asked = {"rounds": 4, "reply_deadline": 60.0, **FAULTY, **SETTINGS}
    with begun(scene.run, "train", **asked) as training:
        until(lambda: ended_fit(scene.run, 4), 400)  # its commit comes after an evaluation
        for client in FAULTS:
            tell(scene.run, client, {})
        finish(training)
    scene.local.train(1)
    for _ in range(3):
        play(scene.local, "client-00")
    return scene


@pytest.mark.parametrize("number", [2, 3, 4])
def test_bad_replies_are_refused_and_the_ledger_says_why(number, misbehaved):
    found = refused_in(misbehaved, number)
    assert {client: found[client] for client in REASONS} == found
    for client, words in REASONS.items():
        assert words[number] in found[client]
    assert replies_in(misbehaved, number) == 1


def test_no_bad_reply_touches_the_tensors(misbehaved):
    assert replies_in(misbehaved, 1) == 3
    assert last_action(misbehaved) == ("train", "done")
    assert_same_bits(misbehaved)


# A node killed in the middle of a round, after one in which all take part again


@pytest.fixture(scope="module")
def node_killed(misbehaved):
    scene = misbehaved
    tell(scene.run, "client-02", {"fit": {"6": "wait"}})
    with begun(scene.run, "train", rounds=6, **FAULTY) as training:
        until_waiting(scene.run, "client-02", "fit 6")
        kill_node(scene.run, "client-02")
        finish(training)
    scene.local.train(5)
    play(scene.local, "client-00", "client-01")
    return scene


def test_a_node_killed_in_a_round_is_missing_from_it_and_nothing_else_is(node_killed):
    assert replies_in(node_killed, 5) == 3
    assert replies_in(node_killed, 6) == 2
    (reason,) = refused_in(node_killed, 6).values()
    assert "Flower reports error 5" in reason or "not connected" in reason
    assert last_action(node_killed) == ("train", "done")
    assert_same_bits(node_killed)


# The superlink killed in the middle of a round


@pytest.fixture(scope="module")
def superlink_killed(node_killed):
    scene = node_killed
    tell(scene.run, "client-02", {"fit": {"7": "wait"}})
    back = answer("up", scene.run)["started"]
    with begun(scene.run, "train", rounds=7, **FAULTY):
        until_waiting(scene.run, "client-02", "fit 7")
        kill(pid_of(scene.run, "superlink"))
    tell(scene.run, "client-02", {})
    started = answer("up", scene.run)["started"]
    return SimpleNamespace(**vars(scene), back=back, started=started)


def test_up_starts_again_what_was_killed_and_only_that(superlink_killed):
    assert superlink_killed.back == ["client-02"]
    assert superlink_killed.started == ["superlink"]


def test_when_the_superlink_is_killed_no_committed_round_is_lost(superlink_killed):
    assert committed(superlink_killed.run) == 6
    assert lock_is_free(superlink_killed.run)
    action, result = last_action(superlink_killed)
    assert action == "train"
    assert result != "done"
    assert_same_bits(superlink_killed)


@pytest.fixture(scope="module")
def went_on(superlink_killed):
    act(superlink_killed.run, "train", rounds=7, **FAULTY)
    superlink_killed.local.train(7)
    return superlink_killed


def test_after_the_restart_training_goes_on_to_the_same_bits(went_on):
    assert replies_in(went_on, 7) == 3
    assert last_action(went_on) == ("train", "done")
    assert_same_bits(went_on)


# The server app killed between plan and commit


@pytest.fixture(scope="module")
def app_killed(went_on):
    run = went_on.run
    tell(run, "client-02", {"recalibrate": {"1": "wait"}})
    with begun(run, "forget", client="client-01", **FAULTY, **STRONG) as command:
        until_waiting(run, "client-02", "recalibrate 1")
        processes = [seen for pid in [*pids_of(run), command.pid] if (seen := look_at(pid))]
        kill(the_server_app(run))
    return SimpleNamespace(run=run, local=went_on.local, processes=processes)


def look_at(pid):
    """A process as it is now; None if it has just ended."""
    with suppress(OSError):
        return SimpleNamespace(
            name=program_of(pid), environment=environment_of(pid), listens=listens_on(pid)
        )


def test_every_process_is_quiet_and_listens_on_loopback_only(app_killed):
    assert {process.name for process in app_killed.processes} == PROGRAMS
    for process in app_killed.processes:
        assert QUIET.items() <= process.environment.items(), process.name
    listens = set.union(*(process.listens for process in app_killed.processes))
    assert listens == {LOOPBACK_IN_KERNEL}


def test_a_server_app_killed_before_the_commit_has_touched_nothing(app_killed):
    assert lock_is_free(app_killed.run)
    assert_same_bits(app_killed)
    (request,) = read_status(app_killed.run)["requests"]
    assert (request["status"], request["targets"]) == ("pending", ["client-01"])
    assert last_action(app_killed) == ("forget", None)


@pytest.fixture(scope="module")
def asked_again(app_killed):
    run, local = app_killed.run, app_killed.local
    tell(run, "client-02", {})
    found = result_in(act(run, "forget", client="client-01", **FAULTY, **STRONG), "forget")
    wanted = local.forget("client-01", **STRONG).as_json()
    return SimpleNamespace(run=run, local=local, found=found, wanted=wanted)


def test_asked_again_it_finishes_as_if_never_killed(asked_again):
    found, wanted = asked_again.found, asked_again.wanted
    for key in ("plan", "before", "after", "shared_sha256_before", "shared_sha256_after"):
        assert found[key] == wanted[key], key
    assert found["not_recalibrated"] == []
    assert_same_bits(asked_again)


def test_asked_again_the_target_erases_its_folder(asked_again):
    assert asked_again.found["erased_at_client"]["client-01"].startswith("confirmed")
    assert not list(node_folder(asked_again.run, "client-01").rglob("*.safetensors"))
