"""A federation of Flower nodes: parity, identity, faults, erasure; all but the network."""

import json
import sqlite3

import pytest
import torch

pytest.importorskip("flwr")

from flwr.app import Error

from helpers.flower_grid import allow
from helpers.toys import WithNorm, client_data
from pfedul import Federation, PfedulError
from pfedul.base.hashes import digest_file
from pfedul.base.tensorfile import as_hash, read_file
from pfedul.base.tensors import Tensors
from pfedul.engine.flower.wire import open_reply, open_words, pack_reply, pack_words
from pfedul.errors import OutOfMemory
from pfedul.personalization import PERSONALIZATIONS
from pfedul.protocol import Reply
from pfedul.run.training import play_round
from pfedul.status import read_status

NAMES = [entry.name for entry in PERSONALIZATIONS]
STRONG = {"correction": "trust-region:clip=0.3", "layers": "all"}


def local(run, **settings):
    data = {client: client_data(4)[client] for client in ("c0", "c1", "c2")}
    chosen = {"personalization": "fedper", "rounds": 2, "local_epochs": 1, "batch_size": 8}
    return Federation.create(
        run, data=data, model=WithNorm, clients=3, engine="inline", **{**chosen, **settings}
    )


def held_by(tmp_path, client) -> str | None:
    """The hash that the run folder has of a client's tensors, which the client must have."""
    file = tmp_path / "run" / "clients" / client / "held.safetensors"
    if not file.exists():
        return None
    sha256 = as_hash(read_file(file))
    (own,) = (tmp_path / "nodes" / client).glob(f"*/{client}/{sha256}.safetensors")
    assert digest_file(own) == sha256
    return sha256


def rows(tmp_path, sql, *values):
    with sqlite3.connect(tmp_path / "run" / "ledger.db") as database:
        return database.execute(sql, values).fetchall()


# Parity


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("correction", ["exclude", "trust-region:clip=0.3", "reset:fraction=0.5"])
def test_tensors_plan_and_outcome_are_those_of_the_inline_engine(
    name, correction, tmp_path, operate
):
    operate("train", personalization=name)
    how = {"correction": correction} | ({} if correction == "exclude" else {"layers": "all"})
    with local(tmp_path / "local", personalization=name) as federation:
        federation.train()
        plan = federation.plan("c1", **how).as_json()
        assert operate("inspect", client="c1", **how) == plan
        for file in ("shared", "init"):
            assert_same_files(tmp_path, f"{file}.safetensors")
        wanted = federation.forget("c1", **how).as_json()
    found = operate("forget", client="c1", **how)
    same = ("plan", "before", "after", "pps", "cfi", "bytes_broadcast", "options")
    hashes = ("shared_sha256_before", "shared_sha256_after", "not_recalibrated", "rounds")
    for key in (*same, *hashes):
        assert found[key] == wanted[key], key
    assert found["audit"]["tests"] == []
    assert "on a machine of their own" in found["audit"]["verdict"]["sentence"]
    assert_same_files(tmp_path, "shared.safetensors")
    for client in ("c0", "c2"):
        personal = tmp_path / "local" / "clients" / client / "personal.safetensors"
        assert held_by(tmp_path, client) == (digest_file(personal) if personal.exists() else None)


def assert_same_files(tmp_path, name):
    assert digest_file(tmp_path / "run" / name) == digest_file(tmp_path / "local" / name)


def test_training_on_after_a_removal_is_the_same_as_well(tmp_path, operate):
    operate("train")
    operate("forget", client="c1")
    operate("train", rounds=4)
    with local(tmp_path / "local") as federation:
        federation.train()
        federation.forget("c1")
        federation.train(4)
    assert_same_files(tmp_path, "shared.safetensors")
    assert_same_files(tmp_path, "records/fisher-total.safetensors")


def test_a_node_plants_the_backdoor_in_its_own_samples(tmp_path, operate, grid):
    allow(grid.of("c1"), "plant_backdoor = true", tmp_path)
    operate("train", plant_backdoor="c1:size=2")
    with local(tmp_path / "local", plant_backdoor="c1:size=2") as federation:
        federation.train()
    assert_same_files(tmp_path, "shared.safetensors")
    operate("forget", client="c1")
    operate("train", rounds=3)


def test_a_backdoor_of_nobody_is_refused(tmp_path, operate, grid):
    allow(grid.of("c1"), "plant_backdoor = true", tmp_path)
    with pytest.raises(PfedulError, match="There is no client 'c9' to plant a backdoor at"):
        operate("train", plant_backdoor="c9")
    with pytest.raises(PfedulError, match="A trigger of size 9 does not fit"):
        operate("train", plant_backdoor="c1:size=9")


# Few messages


def test_one_message_for_each_client_and_round(operate, grid):
    operate("train", rounds=3)
    assert grid.of("c0").seen == ["query.hello", *["train.fit"] * 3, "evaluate.evaluate"]
    rounds = operate("forget", client="c1")["rounds"]
    assert grid.of("c0").seen[5:] == [
        *["train.work"] * rounds,
        "train.statistics",
        "train.recalibrate",
    ]
    assert grid.of("c1").seen[5:] == ["query.erase"]


def test_status_compares_traffic_with_the_shared_tensors(tmp_path, operate):
    operate("train")
    found = {row["action"]: row for row in read_status(tmp_path / "run")["traffic"]}
    size = (tmp_path / "run" / "shared.safetensors").stat().st_size
    fit = found["fit"]
    assert fit["messages_out"] == fit["messages_in"] == fit["clients"] == 6
    assert fit["messages_per_client"] == 1
    assert 6 * size < fit["bytes_out"] < 6 * size + 12_000
    assert fit["in_to_shared"] == pytest.approx(fit["bytes_in"] / 6 / size)
    assert found["evaluate"]["bytes_in"] < 3_000
    assert found["hello"]["bytes_out"] < 6_000


# Identity


def test_names_are_bound_to_keys_at_first_contact(tmp_path, operate, grid):
    operate("train")
    bound = rows(tmp_path, "SELECT client, node_key FROM nodes ORDER BY client")
    assert bound == [(c, grid.of(c).fingerprint) for c in ("c0", "c1", "c2")]


def test_a_node_that_claims_another_clients_name_gets_no_tensors(tmp_path, operate, grid):
    operate("train")
    thief = grid.add("c1", tmp_path / "thief", key="another")
    operate("train", rounds=3)
    assert thief.seen == ["query.hello"]
    reasons = rows(tmp_path, "SELECT node_key, claim, reason FROM strangers")
    words = "the name c1 belongs to a node with another key"
    assert reasons == [(thief.fingerprint, "c1", words)]
    assert any(words in line for line in operate.told)
    assert not (tmp_path / "thief").exists()


def test_at_first_contact_the_second_node_of_a_name_is_refused(tmp_path, operate, grid):
    thief = grid.add("c0", tmp_path / "thief", key="another")
    operate("train")
    assert set(thief.seen) == {"query.hello"}
    assert rows(tmp_path, "SELECT COUNT(*) FROM nodes") == [(3,)]


def test_a_node_that_is_asked_under_another_name_refuses(tmp_path, operate, grid):
    operate("train")
    grid.of("c2").config["client"] = "c9"
    operate("train", rounds=3)
    (reason,) = rows(tmp_path, "SELECT reason FROM refusals WHERE round = 3 AND client = 'c2'")
    assert reason == ("this node is c9 and was asked as c2",)


def test_a_node_that_nobody_knows_is_admitted_only_on_request(tmp_path, operate, grid):
    operate("train")
    new = grid.add("c3", tmp_path / "nodes" / "c3")
    operate("evaluate")
    assert new.seen == ["query.hello"]
    operate("admit", client="c3")
    operate("train", rounds=3)
    assert "train.fit" in new.seen
    assert held_by(tmp_path, "c3")


def test_a_new_run_says_who_is_missing(operate, grid):
    grid.of("c2").online = False
    with pytest.raises(PfedulError, match=r"2 of 3 clients came within 0\.2 s; start the missing"):
        operate("train")
    assert not operate.run.exists()


def test_a_bad_node_config_is_said(tmp_path, operate, grid):
    grid.nodes[1].config = {"folder": str(tmp_path)}
    with pytest.raises(PfedulError, match="the node config must name the client and its folder"):
        operate("train")


def test_a_node_computes_on_a_device_of_its_own(tmp_path, operate, grid):
    operate("train")
    grid.nodes[1].config = {**grid.nodes[1].config, "device": "cuda:9"}
    operate("train", rounds=3)
    reasons = rows(tmp_path, "SELECT reason FROM refusals")
    assert reasons
    assert all("'cuda:9' is not there" in reason for (reason,) in reasons)


# Faults


def change(**parts):
    """Spoil replies to `train.fit`."""

    def spoil(kind, content):
        if kind != "train.fit":
            return content
        reply = open_reply(content)
        return pack_reply(parts["of"](reply))

    return spoil


def with_shared(reply: Reply, shared: Tensors) -> Reply:
    return Reply(reply.client, reply.samples, shared, metrics=reply.metrics, held=reply.held)


def scaled(reply, factor):
    floating = {n: t * factor for n, t in reply.shared.items() if t.is_floating_point()}
    return with_shared(reply, {**reply.shared, **floating})


FIRST = "body.0.weight"
FAULTS = {
    "NaN": (
        lambda r: with_shared(r, {**r.shared, FIRST: r.shared[FIRST] * torch.nan}),
        "not finite",
    ),
    "shape": (
        lambda r: with_shared(r, {**r.shared, FIRST: r.shared[FIRST][:1]}),
        "has shape",
    ),
    "name": (lambda r: with_shared(r, {**r.shared, "extra": torch.ones(1)}), "'extra' is unknown"),
    "missing": (
        lambda r: with_shared(r, {n: t for n, t in r.shared.items() if n != FIRST}),
        "is missing",
    ),
    "count": (
        lambda r: Reply(r.client, -5, r.shared, metrics=r.metrics, held=r.held),
        "reports -5 samples where 24 are registered",
    ),
    "norm": (lambda r: scaled(r, 1e6), "is above 100"),
    "sender": (
        lambda r: Reply("c0", r.samples, r.shared, metrics=r.metrics, held=r.held),
        "in the name of c0",
    ),
    "personal": (
        lambda r: Reply(
            r.client, r.samples, r.shared, {"w": torch.ones(1)}, r.metrics, held=r.held
        ),
        "personal tensor 'w' is unknown",
    ),
    "held": (
        lambda r: Reply(r.client, r.samples, r.shared, metrics=r.metrics, held="../../x"),
        "does not say which personal tensors",
    ),
    "failure": (lambda r: Reply(r.client, 0, failure="out of disk"), "out of disk"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_reply_touches_nothing_and_the_ledger_says_why(fault, tmp_path, operate, grid):
    spoiled, words = FAULTS[fault]
    operate("train", rounds=1, max_update_norm=100.0)
    before = held_by(tmp_path, "c1")
    grid.of("c1").spoil = change(of=spoiled)
    operate("train", rounds=2, max_update_norm=100.0)
    ((client, reason),) = rows(tmp_path, "SELECT client, reason FROM refusals")
    assert client == "c1"
    assert words in reason
    assert held_by(tmp_path, "c1") == before
    assert rows(tmp_path, "SELECT replies FROM rounds ORDER BY round") == [(3,), (2,)]


def test_the_aggregate_is_as_if_the_bad_node_had_not_been_there(tmp_path, operate, grid):
    operate("train", rounds=1)
    grid.of("c1").spoil = change(of=lambda reply: scaled(reply, torch.inf))
    operate("train", rounds=2)
    with local(tmp_path / "local", rounds=1) as federation:
        federation.train()
        play_round(federation, ["c0", "c2"])
        federation.store.commit()
    assert_same_files(tmp_path, "shared.safetensors")


def silent(kind, content):
    return None if kind.startswith(("train", "evaluate")) else content


def failing(kind, content):
    return Error(5, "the node is gone") if kind.startswith(("train", "evaluate")) else content


def garbage(kind, content):
    if kind == "train.fit":
        content["shared"]["safetensors"].data = b"no tensors"
    return content


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (silent, "no answer within 0.3 s"),
        (failing, "Flower reports error 5: the node is gone"),
        (garbage, "its reply cannot be read"),
    ],
)
def test_a_node_without_an_answer_does_not_stop_the_others(spoil, words, tmp_path, operate, grid):
    operate("train", rounds=1)
    grid.of("c1").spoil = spoil
    operate("train", rounds=2, evaluate_every=1)
    reasons = rows(tmp_path, "SELECT reason FROM refusals WHERE client = 'c1'")
    assert reasons
    assert all(words in reason for (reason,) in reasons)
    assert read_status(tmp_path / "run")["rounds"] == 2


def test_too_few_replies_stop_with_one_sentence_and_lose_nothing(tmp_path, operate, grid):
    operate("train", rounds=1)
    before = digest_file(tmp_path / "run" / "shared.safetensors")
    for client in ("c0", "c1", "c2"):
        grid.of(client).spoil = silent
    with pytest.raises(PfedulError, match="Round 2 was not committed: 0 of 3 replies were usable"):
        operate("train", rounds=2)
    assert digest_file(tmp_path / "run" / "shared.safetensors") == before
    (result,) = rows(tmp_path, "SELECT result FROM actions ORDER BY id DESC LIMIT 1")
    assert result == ("Round 2 was not committed: too few usable replies.",)
    assert len(rows(tmp_path, "SELECT * FROM refusals WHERE round = 2")) == 3


def test_figures_that_cannot_be_are_refused(tmp_path, operate, grid):
    operate("train", rounds=1)

    def boast(kind, content):
        if not kind.startswith("evaluate"):
            return content
        reply = open_reply(content)
        return pack_reply(Reply(reply.client, reply.samples, metrics={"accuracy": 7, "loss": 0}))

    grid.of("c1").spoil = boast
    found = operate("evaluate")
    assert [row["client"] for row in found["clients"]] == ["c0", "c2"]
    ((reason,),) = rows(tmp_path, "SELECT reason FROM refusals")
    assert reason == "reports accuracy 7.0 and loss 0.0"


def test_a_round_whose_commit_was_lost_is_played_again_to_the_same_bits(tmp_path, operate):
    """The nodes have new personal tensors, the server has not: the old ones must still be there."""
    operate("train", rounds=1)
    committed = {client: held_by(tmp_path, client) for client in ("c0", "c1", "c2")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pfedul.store.store.Store.commit", _die)
        with pytest.raises(OutOfMemory):
            operate("train", rounds=2)
    assert {client: held_by(tmp_path, client) for client in committed} == committed
    operate("train", rounds=2)
    with local(tmp_path / "local") as federation:
        federation.train()
    assert_same_files(tmp_path, "shared.safetensors")
    for client in committed:
        personal = tmp_path / "local" / "clients" / client / "personal.safetensors"
        assert held_by(tmp_path, client) == digest_file(personal)


def _die(_store):
    raise MemoryError("as good as a kill: nothing after this is done")


# Forgetting


def test_forgetting_erases_the_clients_folder_and_notes_the_receipt(tmp_path, operate, grid):
    operate("train")
    own = held_by(tmp_path, "c1")
    found = operate("forget", client="c1")
    assert found["erased_at_client"]["c1"].startswith("confirmed 20")
    left = [path for path in (tmp_path / "nodes" / "c1").rglob("*") if path.is_file()]
    (receipt,) = left
    words = json.loads(receipt.read_text())
    assert own in words["sha256"]
    assert words["files"] == 2
    ((kept,),) = rows(tmp_path, "SELECT receipt FROM erasures")
    assert json.loads(kept)["files"] == 2
    assert own not in kept
    assert rows(tmp_path, "SELECT node_key FROM barred") == [(grid.of("c1").fingerprint,)]
    for table in ("clients", "replies", "evaluations", "nodes"):
        assert rows(tmp_path, f"SELECT * FROM {table} WHERE client = 'c1'") == []
    assert not (tmp_path / "run" / "clients" / "c1").exists()


def test_offline_the_server_side_is_finished_and_the_erasure_asked_for_later(
    tmp_path, operate, grid
):
    operate("train")
    grid.of("c1").online = False
    found = operate("forget", client="c1")
    assert found["erased_at_client"] == {"c1": "erasure at the client not confirmed"}
    assert "c1: erasure at the client not confirmed; it is asked again" in "\n".join(operate.told)
    assert read_status(tmp_path / "run")["requests"][0]["status"] == "done"
    assert list((tmp_path / "nodes" / "c1").rglob("*.safetensors"))
    grid.of("c1").online = True
    operate("evaluate")
    assert grid.of("c1").seen[-1] == "query.erase"
    assert not list((tmp_path / "nodes" / "c1").rglob("*.safetensors"))
    requests = read_status(tmp_path / "run")["requests"]
    assert requests[0]["erased_at_client"]["c1"].startswith("confirmed")


def test_a_node_whose_folder_moved_has_erased_nothing(tmp_path, operate, grid):
    """Its empty folder is not the one that held the tensors; the true one confirms later."""
    operate("train")
    folder = grid.of("c1").config["folder"]
    grid.of("c1").config["folder"] = str(tmp_path / "elsewhere")
    found = operate("forget", client="c1")
    assert found["erased_at_client"] == {"c1": "erasure at the client not confirmed"}
    assert "has its folder moved?" in "\n".join(operate.told)
    grid.of("c1").config["folder"] = folder
    operate("recalibrate")
    ((receipt,),) = rows(tmp_path, "SELECT receipt FROM erasures")
    assert json.loads(receipt).keys() == {"erased_at", "files", "bytes", "signed"}


@pytest.mark.parametrize(
    "lies",
    [
        {"erased_at": 3_000_000 * "x\x1b"},
        {"files": "<b>", "bytes": 1},
        {"bytes": -1},
        {"sha256": []},
        {"sha256": None},
        {"federation": "another"},
    ],
)
def test_an_odd_receipt_is_cleaned_or_confirms_nothing(lies, tmp_path, operate, grid):
    def lie(kind, content):
        if kind != "query.erase":
            return content
        return pack_words("erase", {**open_words("erase", content), **lies})

    operate("train")
    grid.of("c1").spoil = lie
    found = operate("forget", client="c1")
    confirmed = found["erased_at_client"]["c1"].startswith("confirmed")
    assert confirmed == ("erased_at" in lies)
    ((receipt,),) = rows(tmp_path, "SELECT receipt FROM erasures")
    assert len(receipt) < 200
    assert "\x1b" not in receipt


def test_a_node_is_the_client_that_it_was_registered_as(operate, grid):
    """Else the first node that claims a name would be that client."""
    grid.of("c1").name = "c7"
    with pytest.raises(PfedulError, match="claims to be c1, and is registered as c7"):
        operate("train")


def test_a_node_that_refuses_to_erase_is_not_confirmed(operate, grid):
    operate("train")
    grid.of("c1").spoil = lambda kind, content: Error(2, "no") if kind == "query.erase" else content
    found = operate("forget", client="c1")
    assert found["erased_at_client"] == {"c1": "erasure at the client not confirmed"}


def test_the_key_of_a_forgotten_client_is_barred(operate, grid):
    operate("train")
    operate("forget", client="c1")
    count = len(grid.of("c1").seen)
    operate("train", rounds=3)
    with pytest.raises(PfedulError, match="No new node claims to be 'c1'; waiting: nobody"):
        operate("admit", client="c1", again=True)
    assert len(grid.of("c1").seen) == count


def test_with_a_new_key_it_is_admitted_as_a_new_client(tmp_path, operate, grid):
    operate("train")
    operate("forget", client="c1")
    new = grid.add("c1", tmp_path / "again", key="new")
    with pytest.raises(PfedulError, match="was forgotten"):
        operate("admit", client="c1")
    operate("admit", client="c1", again=True)
    operate("train", rounds=3)
    assert "train.fit" in new.seen


def test_who_was_away_recalibrates_when_it_is_back(tmp_path, operate, grid):
    operate("train")
    grid.of("c2").online = False
    found = operate("forget", client="c1", **STRONG)
    assert found["not_recalibrated"] == ["c2"]
    assert sorted(found["after"]) == ["c0"]
    before = held_by(tmp_path, "c2")
    grid.of("c2").online = True
    operate("evaluate")
    assert "Recalibrated after their absence: c2." in operate.told
    assert held_by(tmp_path, "c2") != before
    with local(tmp_path / "local") as federation:
        federation.train()
        federation.forget("c1", **STRONG)
    personal = tmp_path / "local" / "clients" / "c2" / "personal.safetensors"
    assert held_by(tmp_path, "c2") == digest_file(personal)
    assert read_status(tmp_path / "run")["requests"][0]["not_recalibrated"] == []


# The two kinds of runs are not mixed up


def test_a_run_of_nodes_is_not_opened_as_one_of_this_machine(operate):
    operate("train")
    with pytest.raises(PfedulError, match="are on machines of their own"):
        Federation.open(operate.run, data=client_data(3), model=WithNorm)


def test_a_run_of_this_machine_is_not_opened_as_one_of_nodes(tmp_path, operate):
    with local(tmp_path / "run") as federation:
        federation.train()
    with pytest.raises(PfedulError, match="are here; use 'pfedul train"):
        operate("evaluate")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"action": "fly"}, "--action is one of train, forget"),
        ({"action": "train", "alpa": 0.5}, "Unknown key 'alpa' in the run config"),
        ({"action": "train", "lr": "high"}, "--lr takes a number"),
        ({"action": "train", "clients": ""}, "Say how many clients"),
        ({"action": "forget", "client": "c1"}, "There is no run at"),
        ({"action": "status", "run": ""}, "Say where the run folder is"),
    ],
)
def test_mistakes_are_one_sentence(config, words, operate):
    with pytest.raises(PfedulError, match=words.replace("(", r"\(")):
        operate(**config)


def test_a_run_is_made_beside_its_deployment(operate, tmp_path):
    (tmp_path / "run" / "deployment").mkdir(parents=True)
    (tmp_path / "run" / "deployment" / "note").write_text("kept")
    operate("train")
    assert (tmp_path / "run" / "deployment" / "note").read_text() == "kept"
    assert operate("evaluate")["round"] == 2


def test_one_config_serves_all_actions(operate):
    config = {"lr": 0.02, "alpha": 0.7, "clients": 3, "correction": "paper", "layers": "all"}
    operate("train", **config)
    assert operate("forget", client="c1", **config)["options"]["alpha"] == 0.7


def test_a_message_that_flower_does_not_take_is_said(tmp_path, operate, grid, monkeypatch):
    operate("train", rounds=1)
    push = grid.push_messages

    def too_large(messages):
        ids = push(messages)
        return ids if len(ids) != 3 else [None, *ids[1:]]

    monkeypatch.setattr(grid, "push_messages", too_large)
    operate("train", rounds=2)
    reasons = rows(tmp_path, "SELECT reason FROM refusals")
    assert ("Flower did not take the message to it",) in reasons
