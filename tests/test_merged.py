"""Comparisons of several runs as one document."""

import pytest

from pfedul.compare.document import FIGURES
from pfedul.compare.merged import merged
from pfedul.errors import PfedulError


def comparison(seed: int, excess: float, **changes):
    figures = {**dict.fromkeys(FIGURES, 1.0), "mean_excess": excess}
    base = {"label": "none", "method": "none", "control": True, "failure": None}
    test = {"surface": "stale", "attack": "rmia"}
    return {
        "data": "digits",
        "personalization": "fedper",
        "rounds": 3,
        "seed": seed,
        "targets": [f"c{seed}"],
        "command": f"pfedul compare run-{seed}",
        "training_cpu_seconds": 2.0 + seed,
        "references": [
            {"label": "untouched", "verdict": "not forgotten", **figures, "tests": [test]}
        ],
        "methods": [],
        "cells": [{**base, "seed": None, "verdict": "forgotten", **figures, "tests": []}],
        **changes,
    }


def test_rows_are_means_over_the_runs():
    found = merged([comparison(0, 0.1), comparison(1, 0.3)])
    assert found["methods"][0]["mean_excess"] == pytest.approx(0.2)
    assert found["methods"][0]["spread"]["mean_excess"] == pytest.approx(0.1)
    assert found["references"][0]["mean_excess"] == pytest.approx(0.2)
    assert len(found["references"][0]["tests"]) == 2
    assert [cell["seed"] for cell in found["cells"]] == [0, 1]
    assert found["targets"] == ["c0", "c1"]
    assert found["training_cpu_seconds"] == pytest.approx(2.5)


def test_verdicts_of_references_are_all_there():
    other = comparison(1, 0.3)
    other["references"][0]["verdict"] = "nothing measurable to forget"
    found = merged([comparison(0, 0.1), other])
    assert found["references"][0]["verdict"] == "not forgotten / nothing measurable to forget"


def test_different_federations_are_not_merged():
    with pytest.raises(PfedulError, match="differ in data"):
        merged([comparison(0, 0.1), comparison(1, 0.3, data="cifar10")])
