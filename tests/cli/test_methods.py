"""`pfedul methods`: a line for each, all about one, and which of them work on a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.commands import call, refuse, succeed
from helpers.forgetting_kill import copied
from pfedul.unlearn.methods import METHODS

FAST = "--clients 3 --samples 90 --local-epochs 1 --model mlp:hidden=8 --engine inline --rounds 1"
PLAIN = "--partition iid --min-samples 2"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("methods") / "run"
    succeed("train", folder, *FAST.split(), *PLAIN.split(), "--record", "fisher+norms")
    return folder


def test_every_method_has_one_line():
    lines = [line.split() for line in succeed("methods").splitlines() if line.startswith("  ")]
    assert sorted(words[0] for words in lines) == sorted(METHODS.names())


def test_one_method_in_full():
    text = succeed("methods", "federaser")
    assert "Liu et al., IWQoS 2021" in text
    assert "interval=2" in text
    (row,) = json.loads(succeed("methods", "federaser", "--json"))["methods"]
    assert row in json.loads(succeed("methods", "--json"))["methods"]


def test_what_works_on_a_run_and_why_the_others_do_not(run, tmp_path):
    found = json.loads(succeed("methods", run, "--json"))
    rows = {row["name"]: row for row in found["methods"]}
    assert list(rows) == METHODS.names()
    assert {name for name, row in rows.items() if not row["works"]} == {
        *("pfedul", "pga", "knot", "fedrecovery", "sifu", "exclusion")
    }
    assert all((row["why_not"] is None) == row["works"] for row in rows.values())
    text = succeed("methods", run)
    assert "these work: retrain, ga-naive, fine-tune, federaser," in text
    folder = copied(run, tmp_path / "run")
    for name in ("knot", "pga"):
        refused = refuse("forget", folder, "--client", "client-00", "--method", name)
        assert rows[name]["why_not"] in refused
        assert f"{name}: {rows[name]['why_not']}" in text
    succeed("forget", folder, "--client", "client-00", "--method", "federaser", "--no-audit")


def test_a_run_with_clusters(tmp_path):
    run = tmp_path / "run"
    clusters = ("--clusters", "2", "--clients", "4", "--samples", "120")
    succeed("train", run, *FAST.split(), *PLAIN.split(), *clusters)
    rows = json.loads(succeed("methods", run, "--json"))["methods"]
    assert "knot" in {row["name"] for row in rows if row["works"]}
    why = next(row["why_not"] for row in rows if row["name"] == "fine-tune")
    assert "this run has clusters" in why


def test_what_is_neither_a_method_nor_a_run(tmp_path):
    assert "did you mean 'federaser'?" in refuse("methods", "FedErasor")
    assert "is not a pfedul run folder" in refuse("methods", tmp_path)
    assert call("methods", tmp_path).exit_code == 1
