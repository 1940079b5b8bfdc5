"""Nodes that send what no honest node would: the run goes on, and the ledger says why."""

import sqlite3
from dataclasses import replace

import pytest
import torch

pytest.importorskip("flwr")

from flwr.app import ConfigRecord

from helpers.flower_grid import OneProcessGrid, Operator, load_toy
from pfedul import PfedulError
from pfedul.base.tensorfile import read_file
from pfedul.engine.flower.wire import clean_text, open_reply, open_words, pack_reply, pack_words
from pfedul.flower import client_app
from pfedul.flower.app_config import defaults, read_config
from pfedul.protocol import Reply
from pfedul.status import read_status

SECRET = "a-secret-of-c1"


def rows(operate, sql, *values):
    with sqlite3.connect(operate.run / "ledger.db") as database:
        return database.execute(sql, values).fetchall()


def words_with(**changes):
    """Change the words of replies to a task, whatever they then are."""

    def spoil(kind, content):
        if kind.startswith("query"):
            return content
        words = open_words("reply", content)
        spoiled = pack_words("reply", {**words, **changes})
        for part in ("shared", "personal"):
            if part in content:
                spoiled[part] = content[part]
        return spoiled

    return spoil


def with_empty_text(_kind, content):
    content["comment"] = ConfigRecord({"text": ""})
    return content


HOSTILE = {
    "failure a table": words_with(failure={"a": 1}),
    "failure a surrogate": words_with(failure="\ud800"),
    "failure with lines": words_with(failure="one\nround 99, c0: forged\x1b[2J"),
    "failure endless": words_with(failure="x" * 5_000_000),
    "samples a surrogate": words_with(samples="\ud800"),
    "samples true": words_with(samples=True),
    "client a surrogate": words_with(client="\ud800"),
    "client a list": words_with(client=["c1"]),
    "time a text": words_with(cpu_seconds="x"),
    "time missing": words_with(cpu_seconds=None),
    "time endless": words_with(cpu_seconds=10**30),
    "time not a number": words_with(cpu_seconds=float("nan")),
    "accuracy a text": words_with(metrics={"accuracy": "0.5", "loss": 0.1}),
    "loss endless": words_with(metrics={"accuracy": 0.5, "loss": 10**400}),
    "metrics nested": words_with(metrics={"loss": {"x": 1}}),
    "metrics a list": words_with(metrics=[1]),
    "held a number": words_with(held=7),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_reply_can_stop_a_run(name, operate, grid):
    operate("train", rounds=1)
    grid.of("c1").spoil = HOSTILE[name]
    operate("train", rounds=2)
    operate("evaluate")
    found = operate("forget", client="c2")
    assert found["not_recalibrated"] == ["c1"]
    reasons = [reason for (reason,) in rows(operate, "SELECT reason FROM refusals")]
    assert reasons
    assert all(reason.isprintable() and len(reason) < 700 for reason in reasons)
    assert rows(operate, "SELECT replies FROM rounds WHERE round = 2") == [(1,)]


def test_what_flower_cannot_count_is_no_fault(operate, grid):
    grid.of("c1").spoil = with_empty_text
    operate("train")
    assert rows(operate, "SELECT COUNT(*) FROM refusals") == [(0,)]


def test_a_reply_that_cannot_be_fetched_is_refused(operate, grid, monkeypatch):
    operate("train", rounds=1)
    pull, calls = grid.pull_messages, []

    def broken(message_ids):
        calls.append(message_ids)
        if len(calls) == 2:
            raise ValueError("no such object")
        return pull(message_ids)

    monkeypatch.setattr(grid, "pull_messages", broken)
    operate("train", rounds=2)
    ((reason,),) = rows(operate, "SELECT reason FROM refusals")
    assert reason == "its reply cannot be read (ValueError: no such object)"


def test_a_recalibration_without_its_accuracy_counts_but_is_measured_again(operate, grid):
    operate("train")

    def silent_about_accuracy(kind, content):
        if kind != "train.recalibrate":
            return content
        return pack_reply(replace(open_reply(content), metrics={"loss": 0.0}))

    grid.of("c0").spoil = silent_about_accuracy
    found = operate("forget", client="c1", repair_rounds=0)
    assert sorted(found["after"]) == ["c0", "c2"]
    assert grid.of("c0").seen[-1] == "evaluate.evaluate"
    shared = read_file(operate.run / "shared.safetensors")
    assert found["bytes_broadcast"] == 2 * sum(tensor.nbytes for tensor in shared.values())


# Introductions


INTRODUCTIONS = {
    "train_samples": [10**30, 1e999, "24", True, -1, 0, None],
    "classes": [1e999, "3", 0],
    "shape": ["12", [1e999], [0], 7, None],
    "data_sha256": ["\ud800", "x" * 5_000_000, None],
    "client": ["../x", "\ud800", 5, ""],
    "failure": [{"a": 1}, "\ud800", "x" * 5_000_000],
}


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, values in INTRODUCTIONS.items() for value in values]
)
def test_no_stranger_can_stop_a_run(key, value, tmp_path, operate, grid):
    operate("train")
    stranger = grid.add("c3", tmp_path / "stranger")

    def lie(_kind, content):
        return pack_words("hello", {**open_words("hello", content), key: value})

    stranger.spoil = lie
    operate("train", rounds=3)
    ((claim, reason),) = rows(operate, "SELECT claim, reason FROM strangers")
    assert claim == "?"
    assert 0 < len(reason) < 700
    assert reason.isprintable()
    with pytest.raises(PfedulError, match="No new node claims to be 'c3'"):
        operate("admit", client="c3")


def claiming(count):
    def lie(kind, content):
        if kind != "query.hello":
            return content
        return pack_words("hello", {**open_words("hello", content), "train_samples": count})

    return lie


def test_a_node_cannot_take_over_by_the_samples_that_it_declares(operate, grid, tmp_path):
    """Finding H4: 2^31-1 declared samples made a node's upload the shared tensors."""
    grid.of("c1").spoil = claiming(2**31 - 1)
    with pytest.raises(
        PfedulError, match="2,147,483,647 training samples, and the median of the others is 24"
    ):
        operate("train")
    grid.add("c3", tmp_path / "other")
    operate("train")
    names = rows(operate, "SELECT client FROM clients ORDER BY client")
    assert names == [("c0",), ("c2",), ("c3",)]


def test_one_of_two_nodes_cannot_take_over(grid, operate):
    """The claim itself does not count in the median that it is measured by."""
    del grid.nodes[3]
    grid.of("c1").spoil = claiming(2**31 - 1)
    with pytest.raises(PfedulError, match="the median of the others is 24"):
        operate("train", clients=2)


def test_the_operator_can_bound_the_samples_of_a_node(operate, grid):
    grid.of("c1").spoil = claiming(2400)
    with pytest.raises(PfedulError, match="--max-samples is 100; if that is true, give a higher"):
        operate("train", max_samples=100)


def test_a_newcomer_cannot_take_over_either(operate, grid, tmp_path):
    operate("train", rounds=1)
    grid.add("c3", tmp_path / "stranger").spoil = claiming(10**6)
    with pytest.raises(PfedulError):
        operate("admit", client="c3")
    ((reason,),) = rows(operate, "SELECT reason FROM strangers")
    assert "1,000,000 training samples, and the median of the others is 24" in reason


def test_a_name_that_two_strangers_claim_goes_to_neither(tmp_path, operate, grid):
    operate("train")
    for key in ("honest", "thief"):
        grid.add("c3", tmp_path / key, key=key)
    with pytest.raises(PfedulError, match="2 nodes claim to be 'c3'; stop all but one"):
        operate("admit", client="c3")


def test_a_name_that_differs_by_case_alone_is_not_admitted(operate):
    operate("train")
    with pytest.raises(PfedulError, match="differ only by case"):
        operate("admit", client="C1")


def test_a_hung_stranger_does_not_make_others_late(tmp_path, operate, grid):
    """Flower drops replies when their messages expire: they must outlive the hung one's."""
    lifetimes = []
    push = grid.push_messages

    def watch(messages):
        lifetimes.extend(message.metadata.ttl for message in messages)
        return push(messages)

    grid.push_messages = watch
    hung = grid.add("c9", tmp_path / "hung")
    hung.spoil = lambda _kind, _content: None
    grid.nodes = {9: hung, **{number: node for number, node in grid.nodes.items() if node != hung}}
    operate("train")
    assert read_status(operate.run)["rounds"] == 2
    assert min(lifetimes) > 240


# Statistics


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("running_var", -1.0, "has a negative variance"),
        ("running_mean", 1e30, "its statistics moved by"),
        ("num_batches_tracked", 2**62, "does not count on from the last round"),
        ("num_batches_tracked", -1, "does not count on from the last round"),
    ],
)
def test_statistics_that_cannot_be_are_refused(name, value, words, operate, grid):
    operate("train", rounds=1, max_update_norm=100.0)

    def spoil(kind, content):
        if kind != "train.fit":
            return content
        reply = open_reply(content)
        key = f"body.1.{name}"
        changed = torch.full_like(reply.shared[key], value)
        return pack_reply(replace(reply, shared={**reply.shared, key: changed}))

    grid.of("c1").spoil = spoil
    operate("train", rounds=2, max_update_norm=100.0)
    ((reason,),) = rows(operate, "SELECT reason FROM refusals")
    assert words in reason


def test_negative_variances_of_a_recalibration_are_refused(operate, grid):
    operate("train")

    def spoil(kind, content):
        if kind != "train.statistics":
            return content
        reply = open_reply(content)
        broken = {n: -t.abs() - 1 if "var" in n else t for n, t in reply.shared.items()}
        return pack_reply(replace(reply, shared=broken))

    grid.of("c0").spoil = spoil
    operate("forget", client="c1", correction="reset:fraction=0.5", layers="all")
    ((client, reason),) = rows(operate, "SELECT client, reason FROM refusals")
    assert client == "c0"
    assert "variance" in reason


# Forgetting


def test_a_client_is_forgotten_even_if_nobody_else_answers(operate, grid):
    operate("train")
    for client in ("c0", "c2"):
        grid.of(client).online = False
    with pytest.raises(PfedulError, match=r"from any of c0, c2\b.* --repair-rounds 0"):
        operate("forget", client="c1")
    found = operate("forget", client="c1", repair_rounds=0)
    assert found["not_recalibrated"] == ["c0", "c2"]
    assert (found["before"], found["after"], found["pps"]) == ({}, {}, None)
    assert rows(operate, "SELECT COUNT(*) FROM barred") == [(1,)]
    assert [row["client"] for row in read_status(operate.run)["clients"]] == ["c0", "c2"]


def test_repair_does_without_a_node_that_is_lost_on_the_way(operate, grid):
    operate("train")

    def not_there_for_repair(kind, content):
        return None if kind == "train.work" else content

    grid.of("c2").spoil = not_there_for_repair
    found = operate("forget", client="c1", repair_rounds=1)
    assert found["rounds"] == 1
    assert sorted(found["after"]) == ["c0", "c2"]
    assert found["not_recalibrated"] == []
    assert found["notes"][-1].startswith("replies of 1 client were refused")
    assert read_status(operate.run)["requests"][0]["status"] == "done"
    operate("train", rounds=4)


def test_nothing_that_the_target_said_is_left_in_the_ledger(tmp_path, operate, grid):
    operate("train", rounds=1)
    grid.of("c1").spoil = lambda kind, content: (
        pack_reply(Reply("c1", 0, failure=SECRET)) if kind == "train.fit" else content
    )
    grid.add("c1", tmp_path / "thief", key="another")
    with pytest.raises(PfedulError, match=SECRET):
        operate("train", rounds=2, min_replies=3)
    assert SECRET.encode() in (operate.run / "ledger.db").read_bytes()
    operate("forget", client="c1")
    assert SECRET.encode() not in (operate.run / "ledger.db").read_bytes()
    assert rows(operate, "SELECT * FROM strangers") == []


def test_two_nodes_with_one_folder_do_not_harm_each_other(tmp_path):
    grid = OneProcessGrid(client_app(load_toy))
    for client in ("c0", "c1", "c2"):
        grid.add(client, tmp_path / "together")
    operate = Operator(tmp_path / "run", grid)
    operate("train", rounds=3)
    assert rows(operate, "SELECT COUNT(*) FROM refusals") == [(0,)]
    operate("forget", client="c1")
    operate("train", rounds=4)
    assert rows(operate, "SELECT COUNT(*) FROM refusals") == [(0,)]


def test_a_client_whose_data_changed_is_refused(operate, grid):
    operate("train", rounds=1)

    def other(node):
        model, (x, y), test = load_toy(node)
        return model, (x + 1 if node.client == "c1" else x, y), test

    grid._app = client_app(other)
    operate("train", rounds=2)
    reasons = rows(operate, "SELECT client, reason FROM refusals WHERE round = 2")
    assert reasons == [("c1", "its data are not those with which it joined")]


# The run config


def test_noise_for_training_is_not_noise_for_forgetting():
    config = {**defaults(), "run": "/x", "fisher-noise": 0.5, "forget-fisher-noise": 0.1}
    assert read_config({**config, "action": "train"})[1]["fisher_noise"] == 0.5
    assert read_config({**config, "action": "forget"})[1]["fisher_noise"] == 0.1


@pytest.mark.parametrize("key", ["engine", "workers", "data-root", "checkpoint-every"])
def test_what_means_nothing_here_is_said(key):
    with pytest.raises(PfedulError, match=f"'{key}' means nothing on Flower"):
        read_config({"run": "/x", key: "1"})


def test_texts_of_others_are_short_and_printable():
    assert clean_text("a\x1b[2Jb\n\u202e") == "a [2Jb  "
    assert len(clean_text("x" * 10**6)) == 500
    with pytest.raises(TypeError):
        clean_text(5)
