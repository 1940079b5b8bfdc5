"""A hostile server: what the policy of a node does not allow, no order can make it do."""

from dataclasses import asdict

import numpy as np
import pytest

pytest.importorskip("flwr")

from helpers.flower_grid import allow, load_toy
from helpers.toys import client_data
from pfedul import PfedulError
from pfedul.engine.flower.wire import NodeOrder, open_reply, open_words, pack_order
from pfedul.flower.client import answer
from pfedul.flower.policy import Policy, read_policy
from pfedul.personalization import Recalibration
from pfedul.protocol import Task
from pfedul.settings import Settings, fixed


@pytest.fixture
def hostile(tmp_path):
    """Sends one order to a node with a policy; returns what it answers to it."""

    def send(policy, action, task=None, load=load_toy, **settings):
        (tmp_path / "policy.toml").write_text(policy)
        config = {
            "client": "c1",
            "folder": str(tmp_path / "own"),
            "policy": str(tmp_path / "policy.toml"),
        }
        values = fixed(Settings(**{"model": "own", "data": "own", **settings}))
        order = NodeOrder(task or Task(action, 1), "c1", "f", values)
        content = answer(action, pack_order(order), config, load)
        if action in {"hello", "erase"}:
            return open_words(action, content).get("failure")
        return open_reply(content).failure

    return send


def not_allowed(what):
    return f"the policy of this node does not allow {what}"


FEW = "epochs = 10"
ENDLESS = {
    "the settings": {"action": "fit", "local_epochs": 10**9},
    "an introduction": {"action": "hello", "local_epochs": 10**9},
    "the head": {"action": "fit", "personalization": f"fedrep:head_epochs={10**9}"},
    "the task": {"action": "fit", "task": Task("fit", 1, epochs=10**9)},
    "recalibration": {
        "action": "recalibrate",
        "task": Task("recalibrate", 1, recalibration=Recalibration(10**9)),
    },
    "a method": {
        "action": "work",
        "task": Task("work", 1, how={"what": "train-shared", "epochs": 10**9}),
    },
}


@pytest.mark.parametrize("where", ENDLESS)
def test_no_order_trains_longer_than_the_node_allows(where, hostile):
    refusal = hostile(FEW, **ENDLESS[where])
    assert refusal == not_allowed("1000000000 epochs (at most 10)")


def test_epochs_that_are_no_number_of_epochs_are_refused(hostile):
    for epochs in (float("nan"), 1e300, "many"):
        task = Task("work", 1, how={"what": "train-shared", "epochs": epochs})
        assert hostile(FEW, "work", task)


def test_only_the_listed_actions_are_done(hostile):
    policy = 'actions = ["fit", "evaluate"]'
    assert hostile(policy, "exact-fisher") == not_allowed("the action 'exact-fisher'")
    assert hostile(policy, "erase") == not_allowed("the action 'erase'")
    assert hostile(policy, "hello") is None


def test_an_action_cannot_hide_in_the_message_of_another(hostile):
    """The message says "fit", which is allowed, and the order in it is another one."""
    task = Task("work", 1, how={"what": "train-shared"})
    refusal = hostile('actions = ["fit"]', "fit", task)
    assert refusal == "a message to fit holds an order to work"


def test_only_the_listed_functions_of_methods_are_run(hostile):
    task = Task("work", 1, how={"what": "distil", "iterations": 10**9})
    assert hostile('work = ["train-shared"]', "work", task) == not_allowed("the work 'distil'")


def write_npz(path):
    (train_x, train_y), (test_x, test_y) = client_data(3)["c1"]
    parts = {"x_train": train_x, "y_train": train_y, "x_test": test_x, "y_test": test_y}
    np.savez(path, **{key: np.asarray(value) for key, value in parts.items()})


def test_the_server_cannot_choose_the_file_to_train_on(hostile, tmp_path):
    for name in ("mine", "secret"):
        write_npz(tmp_path / f"{name}.npz")
    policy = f'data = ["npz:file={tmp_path}/mine.npz"]'
    given = {"model": "mlp", "load": None, "clients": 2, "min_samples": 1}
    given["partition"] = "iid"
    asked = f"npz:file={tmp_path}/secret.npz"
    refusal = hostile(policy, "hello", data=asked, **given)
    assert refusal == not_allowed(f"the data '{asked}'")
    allowed = hostile(policy, "hello", data=f"npz:file={tmp_path}/mine.npz", **given)
    assert "the data set has no client 'c1'" in allowed


@pytest.mark.parametrize("policy", ["", "epochs = 10", "plant_backdoor = false"])
def test_no_backdoor_is_planted_unless_the_node_allows_it(policy, hostile):
    refusal = hostile(policy, "hello", plant_backdoor="c1:size=2")
    assert refusal == not_allowed("a planted backdoor")
    assert hostile(policy, "hello", plant_backdoor="c2:size=2") is None
    assert hostile("plant_backdoor = true", "hello", plant_backdoor="c1:size=2") is None


UNREADABLE = {
    "epoch = 10": "Unknown key 'epoch'",
    "epochs = 0": "has epochs = 0",
    'epochs = "10"': "has epochs = '10'",
    'actions = "fit"': "has actions = 'fit'",
    'actions = ["fitt"]': "has actions",
    'data = ["nothing"]': "nothing",
    "plant_backdoor = 1": "has plant_backdoor = 1",
    "= [": "cannot be read",
}


@pytest.mark.parametrize("policy", UNREADABLE)
def test_a_policy_that_is_not_understood_allows_nothing(policy, hostile):
    for action in ("hello", "fit", "erase"):
        assert UNREADABLE[policy] in hostile(policy, action)


def test_a_policy_that_is_missing_allows_nothing(operate, grid, tmp_path):
    grid.of("c1").config["policy"] = str(tmp_path / "gone.toml")
    with pytest.raises(PfedulError, match="There is no configuration file"):
        operate("train")
    grid.of("c1").config["policy"] = "policy.toml"
    with pytest.raises(PfedulError, match="must be an absolute path"):
        operate("train")


def test_what_is_left_out_is_not_restricted(tmp_path):
    (tmp_path / "policy.toml").write_text('data = ["digits"]\n')
    assert asdict(read_policy(tmp_path / "policy.toml")) == asdict(Policy(data=("digits",)))


# In a federation


def test_a_run_that_asks_too_much_is_not_made(operate, grid, tmp_path):
    allow(grid.of("c1"), "epochs = 2", tmp_path)
    with pytest.raises(PfedulError, match=r"does not allow 5 epochs \(at most 2\)"):
        operate("train", local_epochs=5)
    operate("train")


def test_the_run_goes_on_without_who_refuses_and_the_ledger_says_why(operate, grid, tmp_path):
    operate("train", rounds=1)
    allow(grid.of("c1"), 'actions = ["evaluate", "erase"]', tmp_path)
    operate("train", rounds=2)
    outcome = operate("forget", client="c1")
    assert outcome["erased_at_client"]["c1"].startswith("confirmed")


def test_a_node_that_must_not_erase_says_so(operate, grid, tmp_path):
    operate("train")
    allow(grid.of("c1"), 'actions = ["fit"]', tmp_path)
    outcome = operate("forget", client="c1")
    assert outcome["erased_at_client"] == {"c1": "erasure at the client not confirmed"}
    assert any(not_allowed("the action 'erase'") in line for line in operate.told)
