"""Updates of clients that lie, and what is left of them in the shared tensors and the records."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from helpers.forgetting_kill import TARGET, deep, deep_again
from helpers.toys import tensor_digests
from pfedul.base.tensorfile import encode
from pfedul.base.tensors import norm
from pfedul.client import ACTIONS
from pfedul.errors import NothingChanged
from pfedul.records.fisher_on_disk import StoredFisher
from pfedul.server.checks import update_norm
from pfedul.status import read_status
from pfedul.store.ledger import insert
from pfedul.store.paths import fisher_file
from pfedul.unlearn.inspection import score_table

LIAR = "c3"
QUICK = {"engine": "inline", "record": "fisher+contributions"}


def send(monkeypatch, change, rounds=(1, 2, 3, 4, 5, 6)):
    """In these rounds the liar adds `change` to one weight of its update."""
    usual = ACTIONS["fit"]

    def lying(bench, task, job):
        reply = usual(bench, task, job)
        if job.client != LIAR or task.number not in rounds:
            return reply
        shared = dict(reply.shared)
        name = bench.split.parameters[0]
        shared[name] = shared[name].clone()
        shared[name].view(-1)[0] += change
        return replace(reply, shared=shared)

    monkeypatch.setitem(ACTIONS, "fit", lying)


@pytest.mark.parametrize("change", [3e19, 1e30, -3e38])
def test_no_number_makes_anybodys_removal_impossible(change, tmp_path, monkeypatch):
    """The square of 3e19 is infinite in single precision (finding C4)."""
    send(monkeypatch, change)
    with deep(tmp_path / "run", **QUICK, rounds=3) as federation:
        federation.train()
        assert all(torch.isfinite(t).all() for t in fisher(federation).total().values())
        assert federation.plan(TARGET, correction="paper").layers
        federation.forget(TARGET)
        federation.forget(LIAR)
        assert federation.clients == ["c0", "c2"]


@pytest.mark.parametrize("first", [1, 4])
def test_a_run_outlives_a_huge_weight(first, tmp_path, monkeypatch):
    """Finding H4: 1e30 in one live weight was committed, and no later reply was usable."""
    send(monkeypatch, 1e30, rounds=(first,))
    with deep(tmp_path / "run", **QUICK, rounds=12, lr=0.05, local_epochs=3) as federation:
        federation.train()
        assert len(federation.store.ledger.rows("SELECT * FROM replies")) == 48
        assert norm({n: federation.shared[n] for n in federation.bench.split.parameters}) < 100
        assert federation.evaluate().mean > 0.5


def test_without_the_bound_squares_must_be_finite(tmp_path, monkeypatch):
    send(monkeypatch, 3e19)
    with deep(tmp_path / "run", **QUICK, rounds=1, clip_updates=0) as federation:
        federation.train()
        (row,) = federation.store.ledger.rows("SELECT client, reason FROM refusals")
    assert row["client"] == LIAR
    assert "too large to be squared" in row["reason"]


SAFE = {
    "exclude": ({}, {}),
    "reset": (
        {"aggregation": "trimmed-mean:share=0.25"},
        {"correction": "reset", "fraction": 0.5, "layers": "all"},
    ),
}
"""What does not depend on the Fisher, and what keeps lies out of the Fisher."""


@pytest.mark.parametrize("name", SAFE)
def test_a_client_cannot_empty_the_plan_of_another(name, tmp_path, monkeypatch):
    """Finding H2: +-1e4 in one weight of a layer left no score to anybody else."""
    settings, options = SAFE[name]
    send(monkeypatch, 1e4)
    with deep(tmp_path / "run", **QUICK, rounds=4, **settings) as federation:
        federation.train()
        outcome = federation.forget(TARGET, **options)
    assert all(row["relative_change"] > 1e-3 for row in outcome.plan["layers"])


def test_records_see_the_update_as_it_was_aggregated(tmp_path, monkeypatch):
    send(monkeypatch, 1e6)
    with deep(tmp_path / "run", **QUICK, rounds=1) as federation:
        before = federation.shared
        limit = federation.longest_update()
        federation.train()
        names = federation.bench.split.parameters
        own = federation.store.read(f"records/contributions/{LIAR}.safetensors")
        share = federation.members[LIAR].train_samples / sum(
            member.train_samples for member in federation.members.values()
        )
        assert norm(own) == pytest.approx(share * limit, rel=1e-5)
        raw = "SELECT update_norm FROM replies WHERE client = ?"
        assert federation.store.ledger.value(raw, LIAR) > 1e5
        moved = update_norm(before, federation.shared, frozenset(names))
        assert moved <= limit
        ((client, reason),) = [
            (row["client"], row["reason"]) for row in read_status(tmp_path / "run")["refused"]
        ]
        assert client == LIAR
        assert reason.startswith(f"shortened to {limit:.4g}: its update has the length 1e+06")
        outcome = federation.forget(TARGET, repair_rounds=0)
    assert any("updates were shortened to a length" in note for note in outcome.notes)


def test_honest_clients_are_not_touched(tmp_path):
    folders = {"default": {}, "off": {"clip_updates": 0}}
    for name, changes in folders.items():
        with deep(tmp_path / name, **QUICK, rounds=4, **changes) as federation:
            federation.train()
    assert tensor_digests(tmp_path / "default") == tensor_digests(tmp_path / "off")


def test_a_resumed_run_shortens_as_one_that_was_never_interrupted(tmp_path, monkeypatch):
    send(monkeypatch, 1e4)
    for name, every in (("whole", 1), ("late", 3), ("parts", 1)):
        with deep(tmp_path / name, **QUICK, rounds=6, checkpoint_every=every) as federation:
            federation.train(2 if name == "parts" else 6)
    with deep_again(tmp_path / "parts") as federation:
        federation.train(6)
    assert tensor_digests(tmp_path / "whole") == tensor_digests(tmp_path / "parts")
    assert tensor_digests(tmp_path / "whole") == tensor_digests(tmp_path / "late")


def test_others_can_be_forgotten_in_a_run_that_was_poisoned_before(tmp_path):
    """An older version took such an update: one client's record is infinite, the sum is NaN."""
    with deep(tmp_path / "run", **QUICK, rounds=2) as federation:
        federation.train()
        poison(federation, fisher_file(LIAR), float("inf"))
        poison(federation, "records/fisher-total.safetensors", float("nan"))
        scores = score_table(federation)
        assert LIAR not in scores
        assert sum(layer[0] for layer in scores.values()) == pytest.approx(1)
        plan = federation.plan(TARGET, correction="reset")
        assert any("1 client left out of the Fisher" in note for note in plan.notes)
        federation.forget(TARGET, correction="reset", layers="all")
        with pytest.raises(NothingChanged, match="not finite"):
            federation.forget(LIAR, correction="reset", layers="all")
        federation.forget(LIAR, method="retrain")


def poison(federation, name, value):
    """Write an infinite value into a committed file."""
    tensors = federation.store.read(name)
    next(iter(tensors.values())).view(-1)[0] = value
    federation.store.stage(name, tensors)
    federation.store.keep([insert("meta", key="poisoned", value=name)])
    federation.store.commit()
    assert encode(federation.store.read(name)) == encode(tensors)


def fisher(federation):
    return StoredFisher(federation.store, federation.clients, federation.bench.split.layers)
