"""No single client's figures stop the removal of another; who sends nonsense is not measured."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from helpers.forgetting_kill import TARGET, copied, deep_again, trained
from pfedul.client import ACTIONS
from pfedul.errors import MethodFailed, TransientError

LIAR = "c2"
ALONE = {"away": ["c0", "c3"]}
"""Only the liar is there."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("veto") / "run", engine="inline")


@pytest.fixture
def opened(run, tmp_path):
    with deep_again(copied(run, tmp_path / "run")) as federation:
        yield federation


def spoil(monkeypatch, change, *actions):
    """The liar's replies to these actions are what `change` makes of them."""
    for action in actions:
        usual = ACTIONS[action]

        def spoilt(bench, task, job, usual=usual):
            reply = usual(bench, task, job)
            return change(reply) if job.client == LIAR else reply

        monkeypatch.setitem(ACTIONS, action, spoilt)


def nonsense(reply):
    return replace(reply, metrics={**reply.metrics, "accuracy": math.nan, "loss": math.nan})


def not_a_number(reply):
    """Counters stay whole numbers: a reply of another layout is refused for that."""
    spoilt = {n: t * math.nan if t.is_floating_point() else t for n, t in reply.shared.items()}
    return replace(reply, shared=spoilt)


@pytest.mark.parametrize("recalibrate", [True, False])
def test_the_only_client_there_cannot_stop_a_removal_by_its_figures(
    recalibrate, opened, monkeypatch
):
    opened.evaluate()
    spoil(monkeypatch, nonsense, "recalibrate", "evaluate")
    usual = ACTIONS["evaluate"]
    monkeypatch.setitem(ACTIONS, "evaluate", lambda *given: silent_unless_liar(usual, *given))
    outcome = opened.forget(TARGET, **ALONE, repair_rounds=0, recalibrate=recalibrate)
    assert TARGET not in opened.clients
    assert outcome.after == {}
    assert "not measured: 1 client answered without usable figures" in outcome.notes


def silent_unless_liar(usual, bench, task, job):
    reply = usual(bench, task, job)
    return reply if job.client == LIAR else replace(reply, failure="away")


def test_one_of_several_is_left_out_of_the_figures(opened, monkeypatch):
    spoil(monkeypatch, nonsense, "recalibrate", "evaluate")
    outcome = opened.forget(TARGET, repair_rounds=0)
    assert sorted(outcome.after) == ["c0", "c3"]
    assert "not measured: 1 client answered without usable figures" in outcome.notes


def test_repair_does_without_a_client_that_sends_no_numbers(opened, monkeypatch):
    spoil(monkeypatch, not_a_number, "work")
    outcome = opened.forget(TARGET)
    assert TARGET not in opened.clients
    assert any("replies of 1 client were refused" in note for note in outcome.notes)


def test_alone_such_a_client_delays_repair_but_not_the_removal(opened, monkeypatch):
    spoil(monkeypatch, not_a_number, "work")
    with pytest.raises(TransientError, match="or leave repair out: --repair-rounds 0"):
        opened.forget(TARGET, **ALONE)
    assert opened.store.ledger.value("SELECT status FROM requests") == "pending"
    opened.forget(TARGET, **ALONE, repair_rounds=0)
    assert TARGET not in opened.clients


@pytest.mark.parametrize(
    ("repair", "advice"),
    [("distil", "--repair ordinary or --repair-rounds 0"), ("ordinary", "say --repair-rounds 0")],
)
def test_repair_that_diverges_at_all_clients_says_how_to_do_without(
    repair, advice, opened, monkeypatch
):
    usual = ACTIONS["work"]
    monkeypatch.setitem(ACTIONS, "work", lambda *given: not_a_number(usual(*given)))
    with pytest.raises(MethodFailed, match=f"diverged.*{advice}"):
        opened.forget(TARGET, repair=repair)
    opened.forget(TARGET, repair_rounds=0)
    assert TARGET not in opened.clients


def test_no_client_can_wreck_the_shared_tensors_in_repair(opened, monkeypatch):
    def huge(reply):
        return replace(reply, shared={n: t + 1e30 for n, t in reply.shared.items()})

    spoil(monkeypatch, huge, "work")
    opened.forget(TARGET)
    largest = max(float(opened.shared[n].abs().max()) for n in opened.bench.split.parameters)
    assert largest < 100
