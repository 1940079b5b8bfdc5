"""Replies to every client function are checked, and a failed one is never used."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from helpers.forgetting_kill import TARGET, copied, deep_again, trained
from pfedul.client import ACTIONS
from pfedul.errors import PfedulError

ODD = "c2"
"""The client whose replies are spoilt."""

ASKING = {
    "train-shared": "one-more-round",
    "projected-ascent": "pga:rounds=1,ascent=1",
    "train-adapter": "fused:rounds=1",
    "distil": "zerofu:mode=federated,rounds=1,iterations=2,batch=8",
    "fit-prompt": "mimir:iterations=2,batch=8",
}
"""Each client function -> a method that asks for it."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("replies") / "run", engine="inline", record="all")


@pytest.mark.parametrize("function", ASKING)
def test_tensors_of_another_shape_are_refused(function, run, tmp_path, monkeypatch):
    usual = ACTIONS["work"]
    odd = TARGET if function == "projected-ascent" else ODD

    def spoilt(bench, task, job):
        reply = usual(bench, task, job)
        if job.client != odd or task.how["what"] != function:
            return reply
        return replace(reply, shared={n: torch.zeros(2, 7) for n in reply.shared})

    monkeypatch.setitem(ACTIONS, "work", spoilt)
    with deep_again(copied(run, tmp_path / "run")) as federation:
        if odd == TARGET:
            with pytest.raises(PfedulError, match="no usable answer"):
                federation.forget(TARGET, method=ASKING[function])
        else:
            federation.forget(TARGET, method=ASKING[function], allow_unchanged=True)
        rows = federation.store.ledger.rows("SELECT client, reason FROM refusals")
    assert {row["client"] for row in rows} == {odd}
    assert all("shape" in row["reason"] for row in rows)


def test_exact_scores_say_who_gave_no_answer(run, monkeypatch):
    usual = ACTIONS["exact-fisher"]

    def failing(bench, task, job):
        reply = usual(bench, task, job)
        return replace(reply, failure="it broke") if job.client == ODD else reply

    monkeypatch.setitem(ACTIONS, "exact-fisher", failing)
    with (
        deep_again(run) as federation,
        pytest.raises(PfedulError, match=f"{ODD} gave no usable answer"),
    ):
        federation.exact_scores(TARGET)
