"""Results on disk, means over trainings, and the tables that are made of them."""

import json
from dataclasses import replace

import pytest

from pfedul.errors import PfedulError
from pfedul.experiments import EXPERIMENTS
from pfedul.experiments.base import RETRAINED, UNTOUCHED, Experiment, Group, Picture, Row
from pfedul.experiments.cases import Scale, Shelf, case_of
from pfedul.experiments.document import document_of
from pfedul.experiments.pages import markdown, write_files
from pfedul.experiments.price import Price, in_words, sentence, shares

GROUP = Group("CIFAR-10", "FedRep", "cifar10", "fedrep")
EXPERIMENT = Experiment(
    name="small",
    summary="two methods",
    source="Table 0",
    groups=(GROUP,),
    rows=(
        Row("Before", UNTOUCHED),
        Row("A", "fine-tune", "what a reader must know"),
        Row("B", "ga-naive"),
        Row("Retrain", RETRAINED),
    ),
    columns=("accuracy", "pps"),
    printed={("CIFAR-10", "FedRep", "A", "pps"): 0.975},
)
TOY = Scale("toy", seeds=3)


def results(pps, **methods) -> dict:
    row = {"remaining_accuracy": 0.5, "pps": pps, "cpu_seconds": 1.0}
    oracles = [{**row, "pps": 0.8, "cpu_seconds": 4.0}, {**row, "pps": 1.0, "cpu_seconds": 4.0}]
    own = {"fine-tune": row, "ga-naive": {"failure": "It diverged."}, **methods}
    before = {"remaining_accuracy": 0.6}
    counts = {"members": 200, "nonmembers": 260}
    return {"untouched": before, "oracles": oracles, "methods": own, **counts}


@pytest.fixture
def shelf(tmp_path) -> Shelf:
    shelf = Shelf(tmp_path)
    for seed, pps in enumerate((0.9, 0.94)):
        shelf.write(case_of(GROUP, TOY, seed), results(pps))
    return shelf


def cells(shelf) -> dict:
    return document_of(EXPERIMENT, TOY, shelf)["groups"][0]["cells"]


def test_a_cell_is_mean_and_deviation_over_trainings(shelf):
    cell = cells(shelf)["A"]["pps"]
    assert cell["mean"] == pytest.approx(0.92)
    assert cell["deviation"] == pytest.approx(0.02 * 2**0.5)
    assert (cell["trainings"], cell["printed"]) == (2, 0.975)


def test_retraining_is_the_mean_of_the_oracles_of_each_training(shelf):
    cell = cells(shelf)["Retrain"]["pps"]
    assert (cell["mean"], cell["deviation"]) == (pytest.approx(0.9), pytest.approx(0))


def test_a_figure_that_nothing_has_stays_empty(shelf):
    assert cells(shelf)["Before"]["pps"]["mean"] is None
    assert cells(shelf)["Before"]["accuracy"]["mean"] == 60


def test_a_table_says_what_lacks_and_what_failed(shelf):
    text = markdown(document_of(EXPERIMENT, TOY, shelf))
    assert "**Not complete: 1 trainings are missing.**" in text
    assert "| A | 50.0 ±0.0 | 0.920 ±0.028 [0.975] |" in text
    assert "- A: what a reader must know" in text
    assert "- B: no result: It diverged." in text
    assert "| B |" not in text


def test_the_files(shelf, tmp_path):
    drawn = replace(EXPERIMENT, picture=Picture("bars"))
    files = write_files(document_of(drawn, TOY, shelf), tmp_path / "out")
    assert json.loads(files["json"].read_text())["groups"][0]["cells"]["A"]
    assert files["markdown"].read_text().startswith("# small: two methods (Table 0)")
    assert files["picture"].read_bytes().startswith(b"\x89PNG")


def test_intervals_are_means_over_trainings_and_oracles(tmp_path):
    shelf = Shelf(tmp_path)
    for seed, low in enumerate((0.8, 0.9)):
        one = results(0.95, **{"fine-tune": {"pps": 0.95, "pps_interval": (low, 1.0)}})
        for oracle, high in zip(one["oracles"], (1.0, 1.2), strict=True):
            oracle["pps_interval"] = (low, high)
        shelf.write(case_of(GROUP, TOY, seed), one)
    found = cells(shelf)
    assert found["A"]["pps"]["interval"] == [pytest.approx(0.85), 1.0]
    assert found["Retrain"]["pps"]["interval"] == [pytest.approx(0.85), pytest.approx(1.1)]
    assert found["A"]["accuracy"]["interval"] is None
    text = markdown(document_of(EXPERIMENT, TOY, shelf))
    assert "0.950 ±0.000 (0.850-1.000) [0.975]" in text
    assert "(In parentheses) the 95 % interval of one training" in text


def test_columns_without_a_figure_are_left_out(shelf):
    document = document_of(replace(EXPERIMENT, columns=("shared", "accuracy", "pps")), TOY, shelf)
    assert "|  | Rem. % | PPS |" in markdown(document)
    with_ditto = results(0.9, **{"fine-tune": {"pps": 1.0, "shared_accuracy_after": 0.25}})
    shelf.write(case_of(GROUP, TOY, 2), with_ditto)
    document = document_of(replace(EXPERIMENT, columns=("shared", "pps")), TOY, shelf)
    assert "|  | shared model % | PPS |" in markdown(document)
    assert document["groups"][0]["cells"]["A"]["shared"]["mean"] == 25


def test_what_the_number_of_samples_lets_one_see(shelf):
    assert "standard error" not in markdown(document_of(EXPERIMENT, TOY, shelf))
    text = markdown(document_of(replace(EXPERIMENT, columns=("mia", "pps")), TOY, shelf))
    assert "one training a standard error of 2.4 points, and the mean over trainings 1.7;" in text


def test_costs_have_cpu_seconds_and_bytes(tmp_path):
    shelf = Shelf(tmp_path)
    row = {"cpu_seconds": 12.0, "bytes_sent": 2_500_000}
    shelf.write(case_of(GROUP, TOY, 0), results(0.9, **{"fine-tune": row}))
    costs = replace(EXPERIMENT, columns=EXPERIMENTS["table8"].columns)
    found = document_of(costs, TOY, shelf)["groups"][0]["cells"]["A"]
    assert (found["cpu"]["mean"], found["sent"]["mean"]) == (12, 2.5)


# The shelf


def test_later_methods_join_earlier_ones(shelf):
    case = case_of(GROUP, TOY, 0)
    assert shelf.missing(case, ["fine-tune", "knot"]) == ["knot"]
    later = results(0.1)
    shelf.write(case, {**later, "methods": {"knot": {"pps": 0.5}}})
    assert shelf.missing(case, ["fine-tune", "knot"]) == []
    assert shelf.read(case)["methods"]["fine-tune"]["pps"] == 0.9


def test_a_damaged_file_is_named(shelf, tmp_path):
    case = case_of(GROUP, TOY, 0)
    file = tmp_path / "cells" / f"{case.name}.json"
    file.write_text("{")
    with pytest.raises(PfedulError, match=r"is damaged; delete it"):
        shelf.read(case)


def test_what_decides_a_case_is_in_its_name():
    case = case_of(GROUP, TOY, 0)
    others = [
        case_of(GROUP, TOY, 1),
        case_of(GROUP, replace(TOY, oracles=3), 0),
        case_of(replace(GROUP, leaving=3), TOY, 0),
        case_of(replace(GROUP, leaving=3, in_turn=True), TOY, 0),
        case_of(replace(GROUP, first=True), TOY, 0),
        case_of(replace(GROUP, changes={"rounds": 7}), TOY, 0),
    ]
    assert len({case.name, *(other.name for other in others)}) == 7
    recorded = {**case.settings, "record": "contributions", "workers": 3}
    assert replace(case, settings=recorded).name == case.name


# The price


def test_past_cases_tell_what_methods_cost(shelf):
    known = [shelf.read(case_of(GROUP, TOY, seed)) for seed in (0, 1)]
    assert shares(known) == {"fine-tune": 0.25}


def test_the_price_in_words():
    price = Price(2, 1, 4, 6, 3600.0, ("knot",))
    assert sentence(price, ["x"]) == (
        "To do in 2 cases: 1 trainings, 4 retrained without the target and 6 removals. That takes "
        "about 1.0 hours on this machine, and longer by 1 methods that no finished case tells yet."
    )
    assert in_words(3599) == "about 60 minutes"
