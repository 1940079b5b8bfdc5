"""Removals one after another: as many requests, costs added up, judged when all have left."""

import json
from contextlib import closing

import pytest

from helpers.cells_here import cells_here
from helpers.forgetting_kill import deep_again, trained
from pfedul.compare.cells import Comparison, cells_of
from pfedul.compare.comparison import compare
from pfedul.compare.in_turn import together
from pfedul.store.ledger import Ledger
from pfedul.store.requests import read_requests
from pfedul.unlearn.outcome import read_outcome

BOTH = ("c1", "c2")


def quiet(*_words) -> None:
    pass


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> dict:
    """In turn or not -> the folder of the comparison, and its document."""
    run = trained(tmp_path_factory.mktemp("turns") / "run", personalization="fedper", rounds=4)
    cells = cells_of(["pfedul,ga-naive:rounds=1"], [None])
    with deep_again(run) as federation, cells_here():
        return {
            turns: compare(
                Comparison(federation, BOTH, cells, workers=2, in_turn=turns), quiet, quiet
            )
            for turns in (False, True)
        }


def results(compared, turns: bool, method: str) -> tuple[dict, list]:
    (folder,) = compared[turns][0].glob(f"{method}-*")
    with closing(Ledger(folder / "branch" / "ledger.db", read_only=True)) as ledger:
        return json.loads((folder / "result.json").read_text()), read_requests(ledger)


def row(compared, turns: bool, method: str) -> dict:
    return next(one for one in compared[turns][1]["cells"] if one["method"] == method)


@pytest.mark.parametrize("method", ["pfedul", "ga-naive"])
def test_each_target_has_a_request_of_its_own(compared, method):
    _, at_once = results(compared, False, method)
    _, in_turn = results(compared, True, method)
    assert [request.targets for request in at_once] == [BOTH]
    assert [request.targets for request in in_turn] == [("c1",), ("c2",)]


def test_costs_are_those_of_all_requests(compared):
    result, requests = results(compared, True, "ga-naive")
    outcome, each = result["outcome"], [request.outcome for request in requests]
    assert outcome["targets"] == list(BOTH)
    assert outcome["rounds"] == sum(one["rounds"] for one in each) == 2
    assert outcome["bytes_uploaded"] == sum(one["bytes_uploaded"] for one in each)
    for stage, cost in outcome["stages"].items():
        assert cost["cpu_seconds"] == pytest.approx(
            sum(one["stages"].get(stage, {"cpu_seconds": 0})["cpu_seconds"] for one in each)
        )


def test_accuracy_is_kept_over_the_whole_sequence(compared):
    in_turn, at_once = (results(compared, turns, "ga-naive")[0] for turns in (True, False))
    assert in_turn["outcome"]["before"] == at_once["outcome"]["before"]
    assert set(in_turn["outcome"]["after"]) == {"c0", "c3"}
    after = [one["outcome"]["state_sha256_after"] for one in (in_turn, at_once)]
    assert after[0] != after[1]


def test_one_audit_is_of_all_who_left(compared):
    for method in ("pfedul", "ga-naive"):
        result, _ = results(compared, True, method)
        samples = result["outcome"]["audit"]["samples"]
        assert samples == results(compared, False, method)[0]["outcome"]["audit"]["samples"]
        assert row(compared, True, method)["instant"] is not None
    tests = [row(compared, turns, "pfedul")["tests"] for turns in (True, False)]
    assert len(tests[0]) == len(tests[1]) > 0


def test_references_are_the_same_and_the_command_says_how(compared):
    at_once, in_turn = (compared[turns][1] for turns in (False, True))
    assert [r["pps"] for r in in_turn["references"]] == [r["pps"] for r in at_once["references"]]
    assert "--in-turn" in in_turn["command"]
    assert "--in-turn" not in at_once["command"]


def test_a_removal_that_was_honoured_before_a_kill_counts_as_well(compared):
    """Outcomes that are read again from the ledger leave out who left later."""
    _, requests = results(compared, True, "pfedul")
    assert len(requests) == 2
    (folder,) = compared[True][0].glob("pfedul-*")
    with closing(Ledger(folder / "branch" / "ledger.db", read_only=True)) as ledger:
        merged = together([read_outcome(ledger, request) for request in requests])
    assert set(merged.before) == set(merged.after) == {"c0", "c3"}
