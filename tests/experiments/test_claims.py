"""What the paper says, checked against its own figures and against made-up measured ones."""

import pytest

from pfedul.experiments import EXPERIMENTS
from pfedul.experiments.base import Experiment, Group, Row
from pfedul.experiments.cases import Scale, Shelf
from pfedul.experiments.claims import (
    Claim,
    Measured,
    above,
    above_each,
    apart,
    between,
    falling_over_groups,
    findings,
    mean_of,
    rising,
)
from pfedul.experiments.document import document_of
from pfedul.experiments.pages import claims


def table(**rows) -> Measured:
    """Two groups; each row has one figure in each."""
    groups = [
        {"name": name, "cells": {row: {"pps": {"mean": of[n]}} for row, of in rows.items()}}
        for n, name in enumerate(("A", "B"))
    ]
    return Measured({"groups": groups, "columns": [{"name": "pps", "form": ".2f"}]})


LOW, HIGH, MIXED, MISSING = (0.5, 0.6), (0.8, 0.9), (0.55, 0.5), (0.7, None)


@pytest.mark.parametrize(
    ("check", "finding"),
    [
        (between("low", "pps", 0.5, 0.6), ("0.50 to 0.60", True)),
        (between("low", "pps", 0.55, 0.6), ("0.50 to 0.60", False)),
        (between("low", "pps", 0.5, 0.55), ("0.50 to 0.60", False)),
        (above("high", "low", "pps", 0.3), ("high minus low: 0.30", True)),
        (above("high", "low", "pps", 0.31), ("high minus low: 0.30", False)),
        (above("high", "low", "pps", 0.1, 0.2), ("high minus low: 0.30", False)),
        (apart("low", "mixed", "pps", 0.1), ("low minus mixed: -0.05 to 0.10", True)),
        (apart("mixed", "low", "pps", 0.09), ("mixed minus low: -0.10 to 0.05", False)),
        (
            above_each("high", ["low", "mixed"], "pps"),
            ("high minus the others: 0.25 to 0.40", True),
        ),
        (above_each("low", ["mixed"], "pps"), ("low minus the others: -0.05 to 0.10", False)),
        (mean_of("low", "pps", 0.54, 0.56), ("0.55", True)),
        (mean_of("low", "pps", 0.56, 0.6), ("0.55", False)),
        (rising(("low", "high"), "pps"), ("low 0.50 to 0.60, high 0.80 to 0.90", True)),
        (rising(("low", "mixed"), "pps"), ("low 0.50 to 0.60, mixed 0.50 to 0.55", False)),
        (falling_over_groups("mixed", "pps", 0.05), ("0.55 (A) to 0.50 (B)", True)),
        (falling_over_groups("low", "pps", 0.0), ("0.50 (A) to 0.60 (B)", False)),
        # A group that is not measured does not speak against a claim, if others do for it.
        (between("missing", "pps", 0.7, 0.7), ("0.70", True)),
        (above("high", "missing", "pps", 0.05), ("high minus missing: 0.10", True)),
        (falling_over_groups("missing", "pps", 0.0), None),
        (rising(("missing", "high"), "pps"), None),
        (between("nothing", "pps", 0, 1), None),
        (above("high", "nothing", "pps", 0), None),
        (above_each("high", ["low", "nothing"], "pps"), None),
        (mean_of("nothing", "pps", 0, 1), None),
    ],
)
def test_checks(check, finding):
    rows = {"low": LOW, "high": HIGH, "mixed": MIXED, "missing": MISSING, "nothing": (None, None)}
    assert check(table(**rows)) == finding


def test_a_claim_may_agree_with_the_paper_and_not_with_what_was_measured():
    cells = {"pFedUL": {"pps": {"printed": 0.97, "mean": 0.8}}}
    document = {
        "groups": [{"name": "A", "cells": cells}],
        "columns": [{"name": "pps", "form": ".3f"}],
    }
    (row,) = findings(document, [Claim("Table 0", "it is high", between("pFedUL", "pps", 0.9, 1))])
    assert row["printed"] == {"figures": "0.970", "agrees": True}
    assert row["measured"] == {"figures": "0.800", "agrees": False}
    lines = claims({"claims": [row]})
    assert lines[-2] == "| Table 0 | it is high | yes: 0.970 | **no**: 0.800 |"


def test_without_claims_there_is_no_table():
    assert claims({"claims": []}) == []


@pytest.fixture
def nothing(tmp_path) -> Shelf:
    return Shelf(tmp_path)


WITH_CLAIMS = [one for one in EXPERIMENTS if one.claims]


@pytest.mark.parametrize("one", WITH_CLAIMS, ids=lambda one: one.name)
def test_every_claim_can_be_checked_against_the_papers_own_figures(one, nothing):
    document = document_of(one, Scale("toy", seeds=1), nothing)
    assert all(row["printed"] is not None for row in document["claims"])


CONTRADICTED = {
    "after pFedUL it is within 1.8 points of retraining",
    "GA-Naive costs 10 to 15 points of remaining accuracy",
    "after Fine-tune it is still 7 to 11 points above 50 %",
    "GA-Naive's CFI is .73 to .80",
}


def test_what_the_paper_says_against_its_own_figures(nothing):
    """Its text and its tables disagree in these places, and in no other that is checked."""
    rows = [
        row
        for one in WITH_CLAIMS
        for row in document_of(one, Scale("toy", seeds=1), nothing)["claims"]
    ]
    assert {row["says"] for row in rows if not row["printed"]["agrees"]} == CONTRADICTED


def test_claims_name_rows_and_columns_that_exist(nothing):
    """A claim about a row that is not there fails as soon as it is checked."""
    wrong = Experiment(
        name="x",
        summary="",
        source="",
        groups=[Group("p", "g", "cifar10", "fedper")],
        rows=[Row("A", "none")],
        columns=["pps"],
        claims=[Claim("s", "c", between("B", "pps", 0, 1))],
    )
    with pytest.raises(KeyError):
        document_of(wrong, Scale("toy", seeds=1), nothing)
