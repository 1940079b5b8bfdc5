"""Parity, identity and erasure on a real deployment of four nodes.

It goes through everything step by step; each step is a fixture that needs the one before.
"""

import hashlib
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr")

from helpers.flower_deploying import (
    act,
    answer,
    bring_down,
    held_by,
    node_at_server,
    node_folder,
    personal_of,
    pids_of,
    record_of,
    result_in,
    rows,
    server_of,
    shared_of,
    stop_node,
    until,
)
from helpers.flower_story import SMALL, STRONG, twin
from pfedul.base.hashes import digest_file
from pfedul.flower.deployment import control
from pfedul.flower.deployment.certificates import make_node_key, node_key
from pfedul.flower.deployment.environment import free_port, node_command, process_environment
from pfedul.flower.deployment.layout import DeploymentPaths
from pfedul.flower.deployment.processes import end, start
from pfedul.flower.signing import public_form
from pfedul.status import read_status

SETTINGS = {**SMALL, "model": "cnn:width=4", "samples": 400}
"""A model with normalisation, whose statistics are shared as well."""

NOT_CONFIRMED = "erasure at the client not confirmed"


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """A run on four nodes, and its twin in this process."""
    folder = tmp_path_factory.mktemp("clients")
    run = folder / "run"
    try:
        answer("up", run, "--nodes", "4")
        with twin(folder / "local", clients=4, **SETTINGS) as federation:
            yield SimpleNamespace(run=run, local=federation, twin=folder / "local")
    finally:
        bring_down(run)


@pytest.fixture(scope="module")
def trained(scene):
    act(scene.run, "train", rounds=2, **SETTINGS)
    scene.local.train(2)
    return scene


def assert_same_bits(scene, *clients):
    assert shared_of(scene.run) == shared_of(scene.twin)
    for client in clients:
        assert held_by(scene.run, client) == personal_of(scene.twin, client), client


def test_training_gives_the_bits_of_the_inline_engine(trained):
    assert rows(trained.run, "SELECT replies FROM rounds") == [(4,), (4,)]
    assert_same_bits(trained, "client-00", "client-01", "client-02", "client-03")
    for name in ("init.safetensors", "records/fisher-total.safetensors"):
        assert digest_file(trained.run / name) == digest_file(trained.twin / name)


def test_personal_tensors_are_with_the_clients_alone(trained):
    at_server = [path.name for path in (trained.run / "clients").rglob("*") if path.is_file()]
    assert at_server == ["held.safetensors"] * 4


# A node with a key of its own that says it is client-01


@pytest.fixture(scope="module")
def inspected(trained):
    layout, record = DeploymentPaths(trained.run), record_of(trained.run)
    make_node_key(layout, "thief")
    layout.public_key("thief").unlink()  # `up` must not take it for one of its own
    key = public_form(node_key(layout, "thief"))
    control.register(server_of(trained.run), key, "thief")
    words = node_command(layout, record, "thief", free_port("127.0.0.1"))
    folder = layout.node("thief")
    words[-1] = f'client="client-01" folder="{folder}"'
    mark = record.mark("thief")
    environment = process_environment(layout, "thief", mark, record.host)
    thief = start("thief", words, environment, "", layout.log("thief"))
    try:
        until(lambda: node_at_server(trained.run, "thief").status == control.ONLINE)
        log = act(trained.run, "inspect", client="client-01", **STRONG)
    finally:
        end([thief], [mark])
    fingerprint = hashlib.sha256(key).hexdigest()
    return SimpleNamespace(
        **vars(trained), log=log, plan=result_in(log, "inspect"), thief=fingerprint, folder=folder
    )


def test_a_node_that_claims_another_clients_name_gets_nothing(inspected):
    words = "it claims to be client-01, and is registered as thief"
    found = rows(inspected.run, "SELECT node_key, claim, reason FROM strangers")
    assert found == [(inspected.thief, "?", words)]
    assert words in inspected.log
    assert not inspected.folder.exists()
    sent = rows(inspected.run, "SELECT action, messages_out FROM traffic ORDER BY id DESC LIMIT 1")
    assert sent == [("hello", 1)]
    bound = rows(inspected.run, "SELECT node_key FROM nodes WHERE client = 'client-01'")
    assert bound != [(inspected.thief,)]


def test_the_plan_is_that_of_the_inline_engine(inspected):
    assert inspected.plan == inspected.local.plan("client-01", **STRONG).as_json()


# A client is forgotten while all are there


@pytest.fixture(scope="module")
def forgot(inspected):
    (key,) = rows(inspected.run, "SELECT node_key FROM nodes WHERE client = 'client-01'")
    log = act(inspected.run, "forget", client="client-01", **STRONG)
    wanted = inspected.local.forget("client-01", **STRONG).as_json()
    found = result_in(log, "forget")
    return SimpleNamespace(**vars(inspected), key=key, found=found, wanted=wanted)


def test_the_outcome_is_that_of_the_inline_engine(forgot):
    same = ("plan", "before", "after", "pps", "cfi", "bytes_broadcast", "options", "rounds")
    for key in (*same, "shared_sha256_before", "shared_sha256_after", "not_recalibrated"):
        assert forgot.found[key] == forgot.wanted[key], key
    assert_same_bits(forgot, "client-00", "client-02", "client-03")


def test_the_forgotten_node_has_erased_its_folder_and_the_receipt_is_noted(forgot):
    assert forgot.found["erased_at_client"]["client-01"].startswith("confirmed")
    folder = node_folder(forgot.run, "client-01")
    assert not list(folder.rglob("*.safetensors"))
    assert len(list(folder.glob("receipts/*.json"))) == 1
    (row,) = rows(forgot.run, "SELECT target, confirmed_at IS NOT NULL FROM erasures")
    assert row == ("client-01", 1)


def test_the_key_of_the_forgotten_node_is_barred(forgot):
    assert rows(forgot.run, "SELECT node_key FROM barred") == [forgot.key]


# Another is forgotten while its node is away, and so is one that would have to recalibrate


@pytest.fixture(scope="module")
def forgot_while_away(forgot):
    for client in ("client-02", "client-03"):
        stop_node(forgot.run, client)
    held = held_by(forgot.run, "client-02")
    log = act(forgot.run, "forget", client="client-03", nodes_deadline=0.1, **STRONG)
    wanted = forgot.local.forget("client-03", away=["client-02"], **STRONG).as_json()
    status = read_status(forgot.run)["requests"][1]
    at_node = list(node_folder(forgot.run, "client-03").rglob("*.safetensors"))
    words = {"status": status, "at_node": at_node, "held": held}
    found = result_in(log, "forget")
    return SimpleNamespace(run=forgot.run, log=log, found=found, wanted=wanted, **words)


def test_the_servers_side_is_finished_although_the_target_is_away(forgot_while_away):
    found, wanted = forgot_while_away.found, forgot_while_away.wanted
    assert found["erased_at_client"] == {"client-03": NOT_CONFIRMED}
    assert f"client-03: {NOT_CONFIRMED}; it is asked again" in forgot_while_away.log
    assert forgot_while_away.status["status"] == "done"
    assert found["shared_sha256_after"] == wanted["shared_sha256_after"]
    assert forgot_while_away.at_node
    assert len(rows(forgot_while_away.run, "SELECT * FROM barred")) == 2


def test_who_was_away_has_yet_to_recalibrate(forgot_while_away):
    assert forgot_while_away.status["not_recalibrated"] == ["client-02"]
    assert forgot_while_away.found["not_recalibrated"] == ["client-02"]
    assert held_by(forgot_while_away.run, "client-02") == forgot_while_away.held


# They come back


@pytest.fixture(scope="module")
def came_back(forgot_while_away, forgot):
    run = forgot_while_away.run
    started = answer("up", run)["started"]
    log = act(run, "evaluate")
    done = forgot.local.recalibrate()
    return SimpleNamespace(
        run=run, twin=forgot.twin, local=forgot.local, started=started, log=log, done=done
    )


def test_up_brings_back_who_has_yet_to_erase_or_to_recalibrate(came_back):
    assert came_back.started == ["client-02", "client-03"]


def test_who_was_away_recalibrates_to_the_same_bits_when_it_is_back(came_back):
    assert "Recalibrated after their absence: client-02." in came_back.log
    assert came_back.done == ["client-02"]
    assert read_status(came_back.run)["requests"][1]["not_recalibrated"] == []
    assert_same_bits(came_back, "client-00", "client-02")


def test_the_forgotten_node_erases_its_folder_when_it_is_back(came_back):
    request = read_status(came_back.run)["requests"][1]
    assert request["erased_at_client"]["client-03"].startswith("confirmed")
    assert not list(node_folder(came_back.run, "client-03").rglob("*.safetensors"))


def test_the_evaluation_is_that_of_the_inline_engine(came_back):
    found = result_in(came_back.log, "evaluate")["clients"]
    wanted = came_back.local.evaluate().clients
    assert {row["client"]: row["accuracy"] for row in found} == {
        client: score.accuracy for client, score in wanted.items()
    }


def test_every_action_is_in_the_ledger_and_nothing_is_left_running(came_back):
    actions = rows(came_back.run, "SELECT action, result FROM actions ORDER BY id")
    names = ("train", "inspect", "forget", "forget", "evaluate")
    assert actions == [(name, "done") for name in names]
    answer("down", came_back.run)
    assert pids_of(came_back.run) == set()
