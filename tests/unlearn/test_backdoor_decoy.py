"""A client that hides its backdoor behind a decoy, and what each removal makes of it.

The decoy is noise of alternating sign on the weights that the client's own update hardly moves. Its
squares fill the client's Fisher record, so corrections that read it spend themselves there.
"""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
import torch

from pfedul import Federation
from pfedul.client import ACTIONS
from pfedul.data.backdoor import trigger_value, triggered
from pfedul.data.trigger import parse_backdoor

ATTACKER = "client-00"
BACKDOOR = f"{ATTACKER}:label=0,share=0.5"
SETTINGS = {
    "data": "digits",
    "partition": "iid",
    "clients": 5,
    "personalization": "fedavg",
    "model": "mlp:hidden=32",
    "rounds": 12,
    "local_epochs": 3,
    "lr": 0.05,
    "plant_backdoor": BACKDOOR,
    "record": "fisher+contributions",
    "evaluate_every": 0,
    "engine": "inline",
}
DECOYS = {"none": 0.0, "small": 0.05, "large": 0.15}
QUIET = 0.55
"""Share of the weights that carry the decoy: those that the honest update moves least."""


def with_decoy(usual, size):
    """The attacker's training, with noise whose sign changes from round to round."""

    def lying(bench, task, job):
        reply = usual(bench, task, job)
        if job.client != ATTACKER or not size:
            return reply
        shared, sign = dict(reply.shared), (-1) ** task.number
        for name in bench.split.parameters:
            moved = (shared[name] - job.shared[name]).abs()
            quiet = moved <= moved.flatten().quantile(QUIET)
            shared[name] = shared[name] + sign * size * quiet
        return replace(reply, shared=shared)

    return lying


@pytest.fixture(scope="module", params=DECOYS)
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("decoy") / request.param
    usual = ACTIONS["fit"]
    ACTIONS["fit"] = with_decoy(usual, DECOYS[request.param])
    try:
        with Federation.create(folder, **SETTINGS) as federation:
            federation.train()
    finally:
        ACTIONS["fit"] = usual
    return folder


def figures(federation, shared, data):
    """How often the trigger works on others' samples, and their accuracy without it."""
    trigger = parse_backdoor(BACKDOOR)
    model = federation.bench.build_model()
    model.load_state_dict(shared)
    model.eval()
    value = trigger_value(data[ATTACKER].train)
    hits, right = [], []
    for client, parts in data.items():
        if client == ATTACKER:
            continue
        with torch.no_grad():
            right.append(model(parts.test.x).argmax(1) == parts.test.y)
            marked = triggered(parts.test, trigger, value)
            others = marked.y != trigger.label
            hits.append(model(marked.x[others]).argmax(1) == trigger.label)
    return float(torch.cat(hits).float().mean()), float(torch.cat(right).float().mean())


def corrected(run, **options):
    """Figures of the shared tensors that a plan would leave."""
    with Federation.open(run) as federation:
        plan = federation.plan(ATTACKER, **options)
        return figures(federation, plan.apply(federation.shared), federation.bench.data)


def forgotten(run, folder, **options):
    """Figures after a whole removal."""
    with Federation.open(shutil.copytree(run, folder)) as federation:
        data = federation.bench.data
        federation.forget(ATTACKER, **options)
        return figures(federation, federation.shared, data)


def test_the_default_removal_ends_at_the_level_of_retraining(run, tmp_path):
    with Federation.open(run) as federation:
        before, _ = figures(federation, federation.shared, federation.bench.data)
    oracle, _ = forgotten(run, tmp_path / "oracle", method="retrain")
    after, accuracy = forgotten(run, tmp_path / "run")
    assert before > 0.9
    assert oracle < 0.05
    assert after < oracle + 0.05
    assert accuracy > 0.85


def test_the_correction_alone_takes_the_backdoor_out(run):
    trigger, _ = corrected(run)
    assert trigger < 0.05


def test_a_decoy_shields_the_backdoor_from_corrections_that_read_the_fisher(run):
    """So they are no defence against a client that knows of them (docs/fidelity.md)."""
    trigger, _ = corrected(run, correction="reset", fraction=0.2, layers="all")
    if run.name == "none":
        assert trigger < 0.05
    else:
        assert trigger > 0.3
