"""Comparisons of several runs as one document."""

import pytest

from helpers.comparison_documents import cell, comparison, reference
from pfedul.compare.document import merged
from pfedul.compare.page import comparison_page
from pfedul.compare.scatter import picture_of
from pfedul.errors import PfedulError
from pfedul.report.markdown import as_markdown


def with_excess(seed: int, excess: float, **changes):
    references = [
        reference("untouched", excess),
        reference("oracle 1", excess / 10),
        reference("oracle 2", -excess),
    ]
    note = f"said in run {seed}"
    cells = [cell("none", excess, notes=[note, "said in all"])]
    return comparison(seed, cells, **{"references": references, **changes})


def both():
    return merged([with_excess(0, 0.1), with_excess(1, 0.3)])


def test_rows_are_means_over_the_runs():
    found = both()
    assert found["methods"][0]["mean_excess"] == pytest.approx(0.2)
    assert found["methods"][0]["spread"]["mean_excess"] == pytest.approx(0.1)
    assert found["references"][0]["mean_excess"] == pytest.approx(0.2)
    assert found["references"][0]["spread"]["mean_excess"] == pytest.approx(0.1)
    assert len(found["references"][0]["tests"]) == 2
    assert [cell["seed"] for cell in found["cells"]] == [0, 1]
    assert found["targets"] == ["c0", "c1"]
    assert found["training_cpu_seconds"] == pytest.approx(2.5)


def test_oracles_of_different_runs_are_never_taken_for_the_same():
    found = both()
    assert [row["label"] for row in found["references"]] == ["untouched", "oracles"]
    assert len(found["references"][1]["tests"]) == 4
    picture = picture_of(found)
    assert [dot.series for dot in picture.dots].count("oracle") == 4
    assert picture.band == pytest.approx((-0.3, 0.03))


def test_verdicts_of_references_are_all_there():
    other = with_excess(1, 0.3)
    other["references"][0]["verdict"] = "nothing measurable to forget"
    found = merged([with_excess(0, 0.1), other])
    assert found["references"][0]["verdicts"] == ["not forgotten", "nothing measurable to forget"]


def test_the_page_says_which_client_is_of_which_training():
    page = comparison_page(both())
    assert page.title == "How to forget a client: 1 way compared over 2 trainings"
    assert "c0 forgotten in the training with seed 0, c1 in that with seed 1" in page.subtitle


def test_the_page_has_all_configurations_and_the_seeds_of_notes():
    text = as_markdown(comparison_page(both()))
    assert "seed = 0" in text
    assert "seed = 1" in text
    assert "of which c1 is forgotten" in text
    assert "none (training seed 1): Said in run 1." in text
    assert "none (training seeds 0, 1): Said in all." in text


def test_different_federations_are_not_merged():
    with pytest.raises(PfedulError, match="differ in data"):
        merged([with_excess(0, 0.1), with_excess(1, 0.3, data="cifar10")])
