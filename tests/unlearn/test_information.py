"""After forgetting, nothing that is left lets anybody recompute what the target had given."""

import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest
import torch

from helpers import attacker, forgetting_kill
from helpers.attacker import Folder, cosine
from helpers.forgetting_kill import TARGET, copied
from helpers.methods import RECORD, SETTINGS, SPECS, asked
from pfedul.records import contributions
from pfedul.store.erasure import CLIENT_TABLES
from pfedul.store.requests import read_requests
from pfedul.unlearn.methods import METHODS
from pfedul.unlearn.outcome import read_outcome

SIZES = {"c0": 40, TARGET: 61, "c2": 34, "c3": 27, "c4": 45, "c5": 30, "c6": 52, "c7": 38, "c8": 29}
"""The target is the largest: the counter of batches then is its own."""
BIASES = ("one.bias", "two.bias", "three.bias")
MARGIN, CHANCE = 0.02, 0.3
"""In cosine; there are some 100 parameters, so chance is within a tenth of nothing, mostly."""


def data():
    """Each client has a class that is frequent, so updates of others are a poor guess."""
    generator = torch.Generator().manual_seed(0)

    def part(size, frequent):
        y = torch.randint(3, (size,), generator=generator)
        y = torch.where(torch.rand(size, generator=generator) < 0.4, frequent, y)
        return 2 * torch.randn(size, 4, generator=generator), y

    return {
        client: (part(size, index % 3), part(12, index % 3))
        for index, (client, size) in enumerate(SIZES.items())
    }


def opened(run, **settings):
    return forgetting_kill.deep_again(run, data=data(), **settings)


class Runs(dict):
    """(rounds, further settings) -> a trained run with all records, trained when it is needed."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def __missing__(self, key):
        rounds, further = key
        kept = {"personalization": "fedavg", "record": RECORD, "psi_epsilon": 0.13}
        run = self.folder / str(len(self))
        forgetting_kill.trained(run, data=data(), rounds=rounds, **{**kept, **dict(further)})
        self[key] = run
        return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("information"))


@pytest.fixture
def run_of(runs, tmp_path):
    def copy(rounds, **further):
        return copied(runs[rounds, tuple(sorted(further.items()))], tmp_path / "run")

    return copy


class Truth:
    """What a run holds of a client before it is forgotten."""

    def __init__(self, run, target=TARGET):
        folder = Folder(run)
        self.rows = [row for row in folder.replies if row["client"] == target]
        updates = folder.first_updates()
        self.update = updates.pop(target)
        self.others = np.mean(list(updates.values()), axis=0)
        self.samples = self.rows[0]["samples"]

    def guess(self, folder):
        """The best that is known without any record: the others' updates, and the model itself."""
        model = folder.moved(folder.tensors("shared"))
        return max(cosine(self.update, self.others), cosine(self.update, model), CHANCE)


def erase_bytes_only(run, target=TARGET):
    """What belongs to the target alone goes, and nothing that it is mixed into."""
    for file in run.rglob("*.safetensors"):
        if target in str(file.relative_to(run)):
            file.unlink()
    with closing(sqlite3.connect(run / "ledger.db")) as database, database:
        for table in CLIENT_TABLES:
            database.execute(f"DELETE FROM {table} WHERE client = ?", (target,))
    shutil.rmtree(run / "clients" / target, ignore_errors=True)


def assert_nothing_better_than_guessing(run, truth, starts_over=False):
    folder = Folder(run)
    found = attacker.figures_of(folder)
    assert not any(found.samples)
    np.testing.assert_allclose([found.loss, found.cpu_seconds], 0, atol=1e-9)
    assert attacker.batches_by_counter(folder) is None or starts_over
    guess = truth.guess(folder)
    better = {
        name: cosine(truth.update, estimate)
        for name, estimate in attacker.first_updates(folder).items()
        if cosine(truth.update, estimate) > guess + MARGIN
    }
    assert better == {}
    squares = attacker.squares_by_fisher(folder)
    assert squares is None or np.abs(squares).max() < 1e-6 * np.abs(truth.update).max() ** 2


# The attacker succeeds where only bytes are erased


def test_the_attacker_recomputes_figures_and_counter_where_only_bytes_are_erased(run_of):
    run = run_of(3)
    truth = Truth(run)
    erase_bytes_only(run)
    found = attacker.figures_of(Folder(run))
    assert found.samples == [truth.samples] * 3
    assert found.loss == pytest.approx([row["loss"] for row in truth.rows], rel=1e-9)
    assert found.cpu_seconds == pytest.approx([row["cpu_seconds"] for row in truth.rows], rel=1e-6)
    assert attacker.batches_by_counter(Folder(run)) == np.ceil(truth.samples / 8)


@pytest.mark.parametrize(
    "kind", ["first uploads", "norms", "contributions", "uploads", "sums", "psi-models/1"]
)
def test_the_attacker_solves_for_the_first_update_where_only_bytes_are_erased(kind, run_of):
    run = run_of(1, psi_epsilon=10.0) if kind != "psi-models/1" else run_of(2, psi_epsilon=0.13)
    truth = Truth(run)
    erase_bytes_only(run)
    folder = Folder(run)
    estimate = attacker.first_updates(folder)[kind]
    if kind == "norms":  # as many distances as there are unknowns: the biases
        estimate, true = _biases(folder, estimate), _biases(folder, truth.update)
        others = _biases(folder, truth.others)
        assert cosine(true, estimate) > max(0.99, cosine(true, others))
    else:
        assert cosine(truth.update, estimate) > max(0.97, truth.guess(folder) + MARGIN)


def _biases(folder, vector):
    sizes = [(name, folder.initial[name].numel()) for name in sorted(folder.names)]
    ends = np.cumsum([size for _, size in sizes])
    parts = {n: vector[e - s : e] for (n, s), e in zip(sizes, ends, strict=True)}
    return np.concatenate([parts[name] for name in BIASES])


def test_the_attacker_takes_the_others_fisher_from_the_total_where_only_bytes_are_erased(run_of):
    run = run_of(1)
    erase_bytes_only(run)
    assert attacker.squares_by_fisher(Folder(run)).max() > 1e-7


# And fails after every removal

NAMES = [name for name in SPECS if name not in SETTINGS]


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("method", NAMES)
def test_after_every_method_the_attacker_only_guesses(method, rounds, run_of):
    run = run_of(rounds)
    truth = Truth(run)
    with opened(run) as federation:
        federation.forget(TARGET, **asked(method))
    starts_over = METHODS[method].does.starts_over
    assert_nothing_better_than_guessing(run, truth, starts_over)


VARIANTS = [
    {"strength": 0.5},
    {"layers": "high"},
    {"repair_rounds": 0},
    {"repair_rounds": 2, "repair": "ordinary"},
    {"no_recalibration": True, "repair_rounds": 0},
    {"forget_records": "all"},
    {"correction": "reset", "layers": "all"},
]


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_whatever_the_options_the_attacker_only_guesses(options, rounds, run_of):
    run = run_of(rounds)
    truth = Truth(run)
    with opened(run) as federation:
        federation.forget(TARGET, **options)
    assert_nothing_better_than_guessing(run, truth)


@pytest.mark.parametrize("how", ["pfedul", "federaser"])
def test_of_several_targets_at_once_the_attacker_learns_neither(how, run_of):
    run = run_of(1)
    truths = [Truth(run, target) for target in (TARGET, "c4")]
    with opened(run) as federation:
        federation.forget(TARGET, "c4", method=how)
    for truth in truths:
        assert_nothing_better_than_guessing(run, truth)


@pytest.mark.parametrize("second", ["pfedul", "federaser", "not:rounds=1", "retrain"])
def test_of_targets_one_after_another_the_attacker_learns_neither(second, run_of):
    run = run_of(3)
    truths = [Truth(run, target) for target in (TARGET, "c4")]
    with opened(run) as federation:
        federation.forget(TARGET)
        federation.forget("c4", method=second)
    for truth in truths:
        assert_nothing_better_than_guessing(run, truth, starts_over=second == "retrain")


# Partial participation: rescaled sums of two rounds tell how each was weighted

PARTIAL = {"participation": 0.7, "seed": 4}


def test_from_sums_of_two_rounds_the_attacker_would_learn_how_many_samples(run_of, monkeypatch):
    run = run_of(2, **PARTIAL)
    took_part = [reply["client"] for reply in Folder(run).replies].count(TARGET)
    assert took_part == 1
    monkeypatch.setattr(contributions, "tells_weights", lambda *_: False)
    with opened(run) as federation:
        federation.forget(TARGET, repair_rounds=0)
    assert attacker.samples_by_rescaling(Folder(run)) == SIZES[TARGET]


def test_so_such_sums_are_erased(run_of):
    run = run_of(2, **PARTIAL)
    with opened(run) as federation:
        federation.forget(TARGET, repair_rounds=0)
    assert attacker.samples_by_rescaling(Folder(run)) is None
    assert Folder(run).records("contributions") == {}


def test_and_sums_of_many_rounds_are_not(run_of):
    run = run_of(8, participation=0.9)
    with opened(run) as federation:
        federation.forget(TARGET)
        federation.forget("c4")
    assert Folder(run).records("contributions")


# Every table and column of the ledger has a reason

OF_ONE_CLIENT = {
    "clients": {"client", "train_samples", "test_samples", "data_sha256", "joined_round", "status"},
    "replies": {"round", "client", "samples", "loss", "update_norm", "cpu_seconds"},
    "refusals": {"round", "client", "reason"},
    "evaluations": {"round", "client", "accuracy", "loss", "samples"},
    "preservation": {"request", "client", "accuracy_before", "accuracy_after"},
    "recalibrations": {"request", "client", "done_at"},
    "nodes": {"client", "node_key", "bound_at"},
    "audit_clients": {"audit", "client", "figures"},
    "admissions": {"admission", "client", "joined_round", "again", "at"},
}
"""Rows that are deleted with their client."""

WITHOUT_THE_TARGET = {
    "rounds": {
        *("finished_at", "replies", "samples", "loss", "seconds"),
        *("record_seconds", "cpu_seconds"),
    },
    "refusals": {"at"},
    "actions": {"started_at", "finished_at"},
    "traffic": {
        *("id", "action", "number", "clients", "messages_out"),
        *("bytes_out", "messages_in", "bytes_in", "at"),
    },
}
"""Columns that a removal rewrites or empties."""

SAYS_NOTHING = {
    "meta": {"key", "value"},  # facts about the run as a whole
    "rounds": {"round", "shared_sha256", "request"},  # a hash of a mean gives no part of it away
    "actions": {"id", "action", "result"},  # "done", or a sentence about the run
    "commits": {"number", "seconds"},  # syncing all files
    "files": {"path", "sha256", "bytes"},  # files that are there
    "pending": {"path", "staged"},
}

KEPT_ON_PURPOSE = {
    "requests": {
        *("request", "targets", "options", "asked_at", "status", "repaired", "outcome"),
    },
    "barred": {"node_key", "request"},
    "strangers": {"node_key", "claim", "reason", "at"},
    "erasures": {"request", "target", "node_key", "asked_at", "confirmed_at", "receipt"},
    "audits": {"audit", "kind", "targets", "made_at", "evidence"},
    "chain": {
        *("entry", "kind", "at", "about", "body"),
        *("previous", "hash", "public_key", "signature", "salt"),
    },
}
"""That somebody was forgotten, how, and with what evidence: docs/run-folder.md."""


def test_every_column_of_the_ledger_is_known_to_be_erased_or_to_say_nothing(run_of):
    with closing(sqlite3.connect(run_of(1) / "ledger.db")) as database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master")]
        tables = [name for name in tables if not name.startswith("sqlite_")]
        found = {
            (table, row[1])
            for table in tables
            for row in database.execute(f"PRAGMA table_info({table})")
        }
    classes = (OF_ONE_CLIENT, WITHOUT_THE_TARGET, SAYS_NOTHING, KEPT_ON_PURPOSE)
    known = [(table, c) for kind in classes for table in kind for c in kind[table]]
    assert sorted(known) == sorted(found)
    assert set(OF_ONE_CLIENT) == set(CLIENT_TABLES)


def test_rounds_keep_the_figures_of_those_who_remain_and_no_time_of_day(run_of):
    run = run_of(3)
    before = Folder(run)
    with opened(run) as federation:
        federation.forget(TARGET)
    for old, new in zip(before.rounds, Folder(run).rounds, strict=True):
        own = [r for r in before.replies if r["round"] == old["round"] and r["client"] != TARGET]
        count = sum(reply["samples"] for reply in own)
        assert (new["replies"], new["samples"]) == (len(SIZES) - 1, count)
        assert new["loss"] == pytest.approx(sum(r["loss"] * r["samples"] for r in own) / count)
        assert new["cpu_seconds"] == pytest.approx(sum(reply["cpu_seconds"] for reply in own))
        assert new["finished_at"] == old["finished_at"][:10]
    for row in Folder(run).rounds:
        pace = row["seconds"] / row["cpu_seconds"]
        assert pace == pytest.approx(float(f"{pace:.0e}"))


def test_a_mean_over_clients_is_not_stored_beside_the_figures_of_all_but_one(run_of):
    run = run_of(3)
    with opened(run) as federation:
        first = federation.forget("c4")
        federation.forget(TARGET)
        stored = federation.store.ledger.value("SELECT outcome FROM requests WHERE request = 1")
        left = read_outcome(federation.store.ledger, read_requests(federation.store.ledger)[0])
    assert TARGET in first.before
    assert TARGET not in left.before
    assert '"pps"' not in stored
    assert left.as_json()["pps"] > 0
