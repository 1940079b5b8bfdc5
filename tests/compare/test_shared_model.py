"""The shared model alone: with Ditto it shows what a method did, where PPS cannot."""

from statistics import fmean

import pytest

from helpers.cells_here import cells_here
from helpers.comparison_documents import cell, comparison
from helpers.forgetting_kill import deep_again, trained
from pfedul import Federation
from pfedul.compare.cells import Comparison, cells_of
from pfedul.compare.comparison import compare
from pfedul.compare.page import comparison_page
from pfedul.compare.shared_model import shared_accuracy
from pfedul.report.markdown import as_markdown

DESTROYS = "ga-naive:rounds=3,lr=1,clip=100"
COLUMN = "shared model, before and after"


def quiet(*_words) -> None:
    pass


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    run = tmp_path_factory.mktemp("ditto") / "run"
    small = {"clients": 3, "samples": 600, "local_epochs": 2, "rounds": 3, "record": "none"}
    with Federation.create(
        run, model="mlp", personalization="ditto", lr=0.1, engine="inline", **small
    ) as federation:
        federation.train()
        cells = cells_of([f"none,{DESTROYS}"], [None])
        asked = Comparison(federation, (federation.clients[0],), cells, workers=2)
        with cells_here():
            return compare(asked, quiet, quiet)[1]


def test_a_destroyed_shared_model_shows_while_pps_is_1(document):
    none, destroyed = document["methods"]
    assert destroyed["pps"] == destroyed["cfi"] == none["pps"] == 1
    before = destroyed["shared_accuracy_before"]
    assert none["shared_accuracy_before"] == none["shared_accuracy_after"] == before
    assert destroyed["shared_accuracy_after"] < before - 0.1


def test_references_have_the_accuracy_of_their_own_shared_models(document):
    untouched, *oracles = document["references"]
    before = document["methods"][0]["shared_accuracy_before"]
    assert untouched["shared_accuracy_before"] == untouched["shared_accuracy_after"] == before
    assert all(row["shared_accuracy_before"] == before for row in oracles)
    assert all(0 <= row["shared_accuracy_after"] <= 1 for row in oracles)


def test_the_page_says_it(document):
    text = as_markdown(comparison_page(document))
    assert COLUMN in text
    assert "has PPS and CFI 1 whatever it did" in text


def test_it_is_the_mean_over_clients_of_the_shared_tensors_alone(tmp_path):
    run = trained(tmp_path / "run", personalization="ditto", record="none", rounds=1)
    with deep_again(run) as federation:
        zeros = {name: tensor * 0 for name, tensor in federation.shared.items()}
        labels = [federation.bench.data[client].test.y for client in federation.clients]
        expected = fmean(float((part == 0).float().mean()) for part in labels)
        assert shared_accuracy(federation, federation.clients, zeros) == pytest.approx(expected)


def test_a_personal_model_that_contains_the_shared_one_has_no_such_figure(tmp_path):
    run = trained(tmp_path / "run", personalization="fedper", record="none", rounds=1)
    with deep_again(run) as federation:
        assert shared_accuracy(federation, federation.clients) is None


def test_tables_without_it_have_no_column_for_it():
    text = as_markdown(comparison_page(comparison()))
    with_it = comparison(
        cells=[cell("none", 0.3, shared_accuracy_before=0.8, shared_accuracy_after=0.1)]
    )
    assert COLUMN in as_markdown(comparison_page(with_it))
    assert COLUMN not in text
