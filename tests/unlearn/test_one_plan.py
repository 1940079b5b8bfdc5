"""A removal makes its plan once, with the seed of the request."""

from __future__ import annotations

import pytest

from helpers.forgetting_kill import TARGET, copied, deep_again, trained
from pfedul.unlearn.pfedul import method

PLANNING = ("plan_removal", "plan_exclusion")
PAPER = {"correction": "paper"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("one-plan") / "run", engine="inline")


@pytest.fixture
def plans(monkeypatch):
    """Every plan that is made."""
    made = []

    def noting(plan):
        def note(*arguments):
            made.append(plan(*arguments))
            return made[-1]

        return note

    for name in PLANNING:
        monkeypatch.setattr(method, name, noting(getattr(method, name)))
    return made


@pytest.mark.parametrize("options", [{}, PAPER], ids=["default", "paper"])
def test_forgetting_plans_once(options, run, plans, tmp_path):
    with deep_again(copied(run, tmp_path / "run")) as federation:
        outcome = federation.forget(TARGET, **options)
    assert len(plans) == 1
    assert outcome.plan["layers"]


@pytest.mark.parametrize("options", [{}, PAPER], ids=["default", "paper"])
def test_a_rehearsal_plans_once(options, run, plans, tmp_path):
    with deep_again(copied(run, tmp_path / "run")) as federation:
        federation.rehearse(TARGET, level="quick", oracles=1, **options)
    assert len(plans) == 1


def test_the_seed_of_a_request_reaches_the_plan(run, tmp_path):
    """Noise on the Fisher and the choice of random layers are drawn from it."""

    def scores(**options):
        return [layer.score for layer in federation.plan(TARGET, **PAPER, **options).layers]

    with deep_again(run) as federation:
        assert scores(fisher_noise=0.5, seed=1) == scores(fisher_noise=0.5, seed=1)
        assert scores(fisher_noise=0.5, seed=1) != scores(fisher_noise=0.5, seed=2)
        assert scores(fisher_noise=0.5) == scores(fisher_noise=0.5, seed=federation.settings.seed)
    with deep_again(copied(run, tmp_path / "run")) as federation:
        planned = federation.plan(TARGET, **PAPER, fisher_noise=0.5, seed=3).as_json()
        outcome = federation.forget(TARGET, **PAPER, fisher_noise=0.5, seed=3)
    assert outcome.plan == planned
