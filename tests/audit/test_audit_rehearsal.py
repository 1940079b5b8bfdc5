"""A rehearsal leaves the run as it was, foretells the removal to the bit, and says so in JSON."""

import json
import re
import shlex

import pytest
import torch

from helpers.auditing import few_draws, rehearsal, rehearse, tables
from helpers.commands import call
from helpers.forgetting_kill import CLIENTS, TARGET, Deep, copied, deep_again, trained
from helpers.toys import QUICK, client_data, tensor_digests
from pfedul import Federation, PfedulError
from pfedul.store.audits import differences, read_audits

PERSONALIZATIONS = ["fedavg", "fedper", "fedrep", "ditto", "fedbn"]
STRONG = {"correction": "trust-region:clip=0.3"}
RESET = {"correction": "reset:fraction=0.5", "layers": "all", "repair_rounds": 1}
KEYS = {
    *("format", "kind", "made_at", "command", "versions", "machine", "targets", "options", "level"),
    *("seed", "rounds", "configuration", "oracles", "twins", "samples", "hashes", "plan"),
    *("outcome", "verdict", "surfaces", "tests", "measures", "controls", "roc", "distributions"),
    *("relearn", "distance", "backdoor", "preservation", "cost", "removed"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A trained run of each personalisation."""
    folder = tmp_path_factory.mktemp("rehearsal")
    return {
        name: trained(folder / name, personalization=name, rounds=2) for name in PERSONALIZATIONS
    }


@pytest.fixture(scope="module")
def rehearsed(runs, tmp_path_factory):
    """Gives a copy of a run in which a removal was rehearsed, the audit and how the run was."""
    known = {}

    def get(name, *targets, **how):
        key = name, targets, json.dumps(how)
        if key not in known:
            copy = copied(runs[name], tmp_path_factory.mktemp("rehearsed") / name)
            before = everything(copy)
            with deep_again(copy) as federation:
                known[key] = copy, rehearse(federation, *targets, **how), before
        return known[key]

    return get


OF_AUDITS = ("audit", "chain")
"""Beginnings of the names of tables in which an audit leaves rows."""


def everything(run):
    """Tensors outside of oracles, settings, and every row but those of audits."""
    tensors = {k: v for k, v in tensor_digests(run).items() if not k.startswith("oracles/")}
    rows = {name: rows for name, rows in tables(run).items() if not name.startswith(OF_AUDITS)}
    return tensors, rows, (run / "federation.toml").read_bytes()


CASES = [
    *((name, (TARGET,), {**STRONG}) for name in PERSONALIZATIONS),
    ("fedper", (TARGET,), RESET),
    ("fedbn", (TARGET, "c3"), {"oracles": 1, **RESET}),
    ("fedrep", (TARGET, "c3"), {"oracles": 1, "away": ["c0"], **STRONG}),
]
IDS = [f"{name}-{len(targets)}-{'-'.join(how)}" for name, targets, how in CASES]


@pytest.mark.parametrize(("name", "targets", "how"), CASES, ids=IDS)
def test_the_run_is_as_it_was(name, targets, how, rehearsed):
    run, _, before = rehearsed(name, *targets, **how)
    assert everything(run) == before
    left = {path.name for path in run.iterdir()} - {"oracles"}
    assert left <= {"federation.toml", "ledger.db", "lock", "clients", "records"} | {
        f"{part}.safetensors" for part in ("init", "shared")
    }


@pytest.mark.parametrize(("name", "targets", "how"), CASES, ids=IDS)
def test_the_removal_has_the_hashes_that_were_foretold(name, targets, how, rehearsed, tmp_path):
    copy, audit, _ = rehearsed(name, *targets, **how)
    options = {key: value for key, value in how.items() if key != "oracles"}
    with deep_again(copied(copy, tmp_path / "run")) as federation:
        outcome = federation.forget(*targets, **options)
        assert federation.store.state_digest() == audit.evidence["hashes"]["state_after"]
    assert differences(audit.evidence, outcome.as_json()) == []
    assert outcome.shared_sha256_before == audit.evidence["hashes"]["shared_before"]
    assert outcome.shared_sha256_after == audit.evidence["hashes"]["shared_after"]
    assert outcome.state_sha256_after == audit.evidence["hashes"]["state_after"]
    for client, figures in audit.clients.items():
        assert figures["before"] == outcome.before[client]
        assert figures["after"] == outcome.after[client]
    assert audit.evidence["outcome"]["pps"] == outcome.as_json()["pps"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"correction": "paper"}, ["correction was trust-region", "after the removal are others"]),
        (
            {"recalibration_epochs": 3},
            ["recalibration_epochs was 2", "personal tensors are others"],
        ),
        ({"away": ["c0"]}, ["personal tensors are others"]),
        ({"no_recalibration": True}, ["no_recalibration was False", "personal tensors are others"]),
    ],
    ids=str,
)
def test_with_other_options_the_evidence_does_not_hold(change, words, rehearsed, tmp_path):
    copy, audit, _ = rehearsed("fedper", TARGET, **STRONG)
    with deep_again(copied(copy, tmp_path / "run")) as federation:
        outcome = federation.forget(TARGET, **{**STRONG, **change})
    found = differences(audit.evidence, outcome.as_json())
    for word in words:
        assert any(word in difference for difference in found), found
    assert len(found) == len(words) + (change.get("correction") == "paper")


def test_trained_on_in_between_the_evidence_does_not_hold(rehearsed, tmp_path):
    copy, audit, _ = rehearsed("fedper", TARGET, **STRONG)
    with deep_again(copied(copy, tmp_path / "run")) as federation:
        federation.train(3)
        outcome = federation.forget(TARGET, **STRONG)
    found = differences(audit.evidence, outcome.as_json())
    assert found[0].startswith("the shared tensors before the removal are others")
    assert len(found) == 3


def test_another_client_who_left_in_between_makes_it_another_removal(rehearsed, tmp_path):
    copy, audit, _ = rehearsed("fedper", TARGET, **STRONG)
    with deep_again(copied(copy, tmp_path / "run")) as federation:
        federation.forget("c3")
        outcome = federation.forget(TARGET, **STRONG)
    assert len(differences(audit.evidence, outcome.as_json())) == 3


# The evidence


def numbers_only(value):
    """Plain data, without NaN: what json.dumps(allow_nan=False) takes, and nothing else."""
    return json.loads(json.dumps(value, allow_nan=False)) == value


@pytest.mark.parametrize(("name", "targets", "how"), CASES, ids=IDS)
def test_the_evidence_is_the_documented_plain_data(name, targets, how, rehearsed):
    run, audit, _ = rehearsed(name, *targets, **how)
    evidence = audit.evidence
    assert numbers_only(evidence)
    assert numbers_only(audit.clients)
    assert set(evidence) == KEYS
    assert evidence["format"] == 1
    assert evidence["kind"] == audit.kind == "rehearsal"
    assert evidence["targets"] == list(targets)
    assert evidence["configuration"] == (run / "federation.toml").read_text()
    assert set(evidence["hashes"]) == {"shared_before", "shared_after", "state_after"}
    assert set(evidence["samples"]) == {"members", "nonmembers", "population", "retain", "test"}
    assert [o["name"] for o in evidence["oracles"]] == [
        f"oracle {n + 1}" for n in range(how.get("oracles", 2))
    ]
    for oracle in evidence["oracles"]:
        assert set(oracle) == {
            *("name", "seed", "rounds", "cpu_seconds", "shared_sha256", "cached")
        }
    models = ["candidate", "untouched", *(oracle["name"] for oracle in evidence["oracles"])]
    for test in evidence["tests"]:
        assert list(test["figures"]) == models
        assert 0 <= test["figures"]["candidate"]["value"] <= 1
        assert test["attack"] in (
            {"threshold", "logistic"} | ({"rmia"} if len(models) > 3 else set())
        )
    available = [s["name"] for s in evidence["surfaces"] if s["available"]]
    assert list(dict.fromkeys(test["surface"] for test in evidence["tests"])) == available
    shown = {(row["surface"], row["model"]) for row in evidence["roc"]}
    assert shown == {(row["surface"], row["model"]) for row in evidence["distributions"]}
    for row in evidence["distributions"]:
        assert len(row["edges"]) == len(row["members"]) + 1
        assert sum(row["members"]) == pytest.approx(1)
        assert sum(row["nonmembers"]) == pytest.approx(1)
    for row in evidence["roc"]:
        assert row["fpr"] == sorted(row["fpr"])
        assert (row["fpr"][0], row["fpr"][-1], row["tpr"][-1]) == (0, 1, 1)
    assert set(evidence["relearn"]["curves"]) == {*models, "fresh"}
    assert [row["samples"] for row in evidence["distance"]] == ["target", "remaining", "test"]
    assert evidence["backdoor"] is None
    assert set(evidence["preservation"]["oracle"]) == {"assigned", "pps", "cfi"}
    assert set(evidence["cost"]) == {
        *("forget_cpu_seconds", "retrain_cpu_seconds", "rehearsal_cpu_seconds"),
        "training_cpu_seconds",
    }
    assert all(value > 0 for value in evidence["cost"].values())
    figures = {"scores", "before", "after", "oracle", "auc", "away"}
    remaining = [c for c in ("c0", "c1", "c2", "c3") if c not in targets]
    assert list(audit.clients) == remaining
    assert all(set(row) == figures for row in audit.clients.values())
    assert (audit.clients["c2"]["auc"] is None) == (name == "fedavg")


@pytest.mark.parametrize(("name", "targets", "how"), CASES, ids=IDS)
def test_no_remaining_client_is_named_in_what_stays(name, targets, how, rehearsed):
    """Figures of single clients are rows of their own, erased when they are forgotten in turn."""
    run, _, _ = rehearsed(name, *targets, **how)
    (row,) = tables(run)["audits"]
    for client in {"c0", "c1", "c2", "c3"} - set(targets):
        assert re.search(rf"\b{client}\b", row["evidence"]) is None


def test_who_was_away_is_in_the_command_as_long_as_it_is_with_the_run(rehearsed, tmp_path):
    copy, audit, _ = rehearsed("fedrep", TARGET, "c3", oracles=1, away=["c0"], **STRONG)
    assert audit.evidence["command"].endswith("--away c0")
    assert audit.clients["c0"]["away"]
    assert not audit.clients["c2"]["away"]
    with deep_again(copied(copy, tmp_path / "run")) as federation:
        federation.forget("c0")
        (kept,) = read_audits(federation.store.ledger)
    assert "c0" not in kept.evidence["command"]
    assert list(kept.clients) == ["c2"]


@pytest.mark.parametrize("case", [5, 7], ids=lambda n: IDS[n])
def test_the_command_of_the_evidence_does_the_same_again(
    case, rehearsed, runs, tmp_path, monkeypatch
):
    name, targets, how = CASES[case]
    _, audit, _ = rehearsed(name, *targets, **how)
    run = copied(runs[name], tmp_path / "folder" / name)
    monkeypatch.chdir(run.parent)
    monkeypatch.setattr("pfedul.cli.parts.opened", lambda path, _root: deep_again(path))
    words = shlex.split(audit.evidence["command"])
    assert words[:3] == ["pfedul", "rehearse", name]
    with few_draws():
        done = call(*words[1:], "--json")
    assert done.exit_code == 0, done.stderr
    again = json.loads(done.stdout)
    for key in ("hashes", "verdict", "tests", "controls", "measures", "options", "plan"):
        assert again[key] == audit.evidence[key]
    assert again["clients"] == audit.clients
    assert again["command"] == audit.evidence["command"]


def test_the_second_rehearsal_takes_the_oracles_of_the_first(rehearsed, tmp_path):
    copy, audit, _ = rehearsed("fedper", TARGET, **STRONG)
    with deep_again(copied(copy, tmp_path / "run")) as federation:
        again = rehearse(federation, TARGET, **STRONG)
        assert rehearsal(federation, TARGET).price().oracles == 0
    assert again == audit


def test_a_client_who_is_named_twice_is_one_client(rehearsed, tmp_path):
    copy, audit, _ = rehearsed("fedper", TARGET, **STRONG)
    with deep_again(copied(copy, tmp_path / "run")) as federation:
        again = rehearse(federation, TARGET, TARGET, **STRONG)
    assert again.evidence["targets"] == [TARGET]
    assert again.evidence["verdict"] == audit.evidence["verdict"]
    assert again.evidence["command"].count(TARGET) == 1


def test_a_path_with_spaces_is_quoted_in_the_command(runs, tmp_path, monkeypatch):
    run = copied(runs["fedavg"], tmp_path / "two words" / "run")
    monkeypatch.chdir(tmp_path)
    with deep_again(run) as federation:
        words = shlex.split(rehearsal(federation, TARGET).command())
    assert words[:3] == ["pfedul", "rehearse", "two words/run"]


# What is refused, before anything is trained


def test_what_cannot_be_rehearsed_is_refused_before_anything_is_trained(runs, tmp_path):
    run = copied(runs["fedper"], tmp_path / "run")
    before = everything(run)
    with deep_again(run) as federation:
        for targets, how, sentence in (
            ((), {}, "Name at least one client"),
            (("nobody",), {}, "There is no client 'nobody'"),
            (("c0", "c1", "c2", "c3"), {}, "Nobody would remain"),
            ((TARGET,), {"away": ["nobody"]}, "is not one of the clients"),
        ):
            with pytest.raises(PfedulError, match=sentence):
                rehearse(federation, *targets, **how)
    assert everything(run) == before
    assert not (run / "oracles").exists()


def few_samples(counts):
    data = client_data(CLIENTS)
    for client, (train, test) in counts.items():
        parts = data[client]
        data[client] = tuple((x[:n], y[:n]) for (x, y), n in zip(parts, (train, test), strict=True))
    return data


def test_a_target_with_too_few_samples_is_refused_before_anything_is_trained(tmp_path):
    data = few_samples({TARGET: (24, 3)})
    with Federation.create(tmp_path / "run", data=data, model=Deep, **QUICK) as federation:
        federation.train(1)
        with pytest.raises(PfedulError, match="have 3 test samples and an audit needs 4"):
            rehearse(federation, TARGET)
    assert not (tmp_path / "run/oracles").exists()


class Reshuffled(torch.utils.data.Dataset):
    """A Dataset that transforms at random."""

    def __init__(self, part):
        self.x, self.y = part

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return self.x[index] + 0.1 * torch.randn(4), int(self.y[index])


def test_tiny_clients_late_ones_and_datasets_are_rehearsed_alike_twice(tmp_path):
    """Few samples, participation below 1, a client that joined late, random transforms."""
    data = few_samples({TARGET: (5, 4), "c2": (3, 1), "c3": (4, 2)})
    late = data.pop("c3")
    settings = {**QUICK, "participation": 0.6, "min_samples": 1, "rounds": 2}
    data["c0"] = tuple(map(Reshuffled, data["c0"]))
    data[TARGET] = tuple(map(Reshuffled, data[TARGET]))
    with Federation.create(tmp_path / "run", data=data, model=Deep, **settings) as federation:
        federation.train()
    data["c3"] = late
    with Federation.open(tmp_path / "run", data=data, model=Deep) as federation:
        federation.admit("c3")
        federation.train(4)
        one = rehearse(federation, TARGET)
        two = rehearse(federation, TARGET)
    assert numbers_only(one.evidence)
    for key in ("tests", "hashes", "verdict", "relearn", "distance"):
        assert one.evidence[key] == two.evidence[key]
    assert one.evidence["verdict"]["verdict"] == "not enough evidence"


class Half(Deep):
    """All tensors in half precision."""

    def __init__(self):
        super().__init__()
        self.to(torch.bfloat16)


def test_a_model_in_half_precision_is_rehearsed(tmp_path):
    data = client_data(CLIENTS)
    with Federation.create(tmp_path / "run", data=data, model=Half, **QUICK) as federation:
        federation.train(1)
        audit = rehearse(federation, TARGET, **STRONG)
        outcome = federation.forget(TARGET, **STRONG)
    assert differences(audit.evidence, outcome.as_json()) == []
    assert numbers_only(audit.evidence)
