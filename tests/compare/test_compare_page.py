"""The page and the picture of a comparison."""

import re
from importlib.resources import files

import pytest
from matplotlib.figure import Figure as Canvas

from helpers.comparison_documents import cell, comparison, failed
from pfedul.compare.labels import short_labels
from pfedul.compare.page import comparison_page
from pfedul.compare.scatter import _ON_PAGE, _ON_WHITE, draw_scatter, picture_of, scatter_figure
from pfedul.report.blocks import Table
from pfedul.report.formats import as_html
from pfedul.report.markdown import as_markdown
from pfedul.report.style import INKS


def tables(found) -> list[Table]:
    sections = comparison_page(found).sections
    return [block for section in sections for block in section.blocks if isinstance(block, Table)]


def row_of(table: Table, start: str) -> tuple[str, ...]:
    return next(row for row in table.rows if row[0].startswith(start))


def test_what_failed_is_a_row_of_both_tables():
    found = comparison(cells=[cell("none", 0.3), failed("pga", "The method diverged.")])
    forgetting, cost, *_ = tables(found)
    assert row_of(forgetting, "pga")[1] == "no result: The method diverged."
    assert row_of(cost, "pga")[1] == "no result"
    assert {len(row) for row in forgetting.rows} == {len(forgetting.head)}
    assert {len(row) for row in cost.rows} == {len(cost.head)}


def test_a_method_that_failed_with_one_seed_says_so():
    cells = [cell("pga", 0.3), failed("pga", "Diverged.", seed=1)]
    assert row_of(tables(comparison(cells=cells))[0], "pga")[1] == "✓ forgotten (1), no result (1)"


def test_a_verdict_has_a_sign_and_a_colour():
    none = row_of(tables(comparison())[0], "none")[1]
    assert (str(none), none.tone) == ("✓ forgotten", "good")
    assert 'class="short good"' in as_html(comparison_page(comparison()))


def test_on_a_phone_the_legend_of_the_picture_is_one_column():
    picture = scatter_figure(comparison())
    assert picture.narrow.size[0] < 360 < picture.size[0]
    assert '<div class="narrow">' in as_html(comparison_page(comparison()))


def test_several_seeds_have_a_spread():
    cells = [cell("pga", 0.1, 0.8), cell("pga", 0.3, 1.0, seed=1)]
    row = row_of(tables(comparison(cells=cells))[0], "pga")
    assert "+0.200 ±0.100" in row
    assert "0.900 ±0.100" in row
    assert "±" not in "".join(map(str, row_of(tables(comparison())[0], "none")))


def test_a_method_with_a_base_of_its_own_is_marked():
    found = comparison(cells=[cell("knot", 0.1, own_base=True)])
    forgetting, cost, *_ = tables(found)
    assert row_of(forgetting, "knot")[0] == row_of(cost, "knot")[0] == "knot †"
    assert "† branches from a run of its own" in as_markdown(comparison_page(found))


def test_surfaces_have_one_row_a_model_and_are_explained():
    cells = [cell("pga", 0.1), cell("pga", 0.3, seed=1)]
    found = comparison(cells=cells)
    surfaces = tables(found)[2]
    assert surfaces.head == ("model", "stale")
    assert [row[0] for row in surfaces.rows] == [
        *("(untouched)", "(oracle 1)", "(oracle 2)", "pga")
    ]
    assert "removed client, or a backup, kept its own part" in as_markdown(comparison_page(found))


def test_one_is_not_called_several():
    page = comparison_page(comparison(rounds=1))
    assert page.title.endswith("1 way compared")
    assert "1 round " in f"{page.subtitle} "


def test_clients_who_are_forgotten_together_are_named_together():
    page = comparison_page(comparison(targets=["ann", "bob"]))
    assert page.title.startswith("How to forget ann and bob:")


def test_short_labels_keep_what_tells_variants_apart():
    labels = [
        "pfedul",
        "pfedul:correction=reset,fraction=0.3,layers=all",
        "pfedul:correction=reset,fraction=0.5,layers=all,repair-rounds=3",
        "pfedul:correction=reset,fraction=0.3",
        "budgeted-retrain:times=2",
    ]
    names = list(short_labels(labels).values())
    assert len(set(names)) == len(labels)
    assert "…" not in "".join(names)
    assert names[2] == "pfedul (reset 50%, 3 repair rounds)"


def test_the_picture_has_the_colours_of_the_page():
    style = files("pfedul.report").joinpath("templates", "style.css").read_text()
    for name in ("method", "control", "oracle", "untouched", "band", "grid"):
        variable = re.escape(INKS[_ON_PAGE[name]][4:-1])
        assert re.search(rf"{variable}: ([^;]+);", style).group(1) == _ON_WHITE[name]


CROWD = [cell(f"method-{number}", 0.3 + number / 1000, 1.0) for number in range(8)]


@pytest.fixture(scope="module")
def drawn():
    cells = [*CROWD, cell("knot", 0.0, 0.7, own_base=True), cell("knot", 0.1, 0.9, own_base=True)]
    canvas = Canvas(figsize=(9.6, 7.6), layout="constrained")
    picture = picture_of(comparison(cells=cells))
    draw_scatter(canvas, picture, _ON_WHITE, 9.0)
    canvas.draw_without_rendering()
    return canvas


def test_the_picture_explains_itself(drawn):
    texts = [text.get_text() for text in drawn.legends[0].get_texts()]
    for words in ("method", "oracle", "untouched", "range of the oracles", "± standard", "†"):
        assert any(words in text for text in texts)
    assert "fedper on digits, 3 rounds\nc0 forgotten" in drawn.axes[0].get_title(loc="left")


def test_every_method_has_its_number_in_the_picture_and_its_name_in_the_legend(drawn):
    numbers = [text.get_text() for text in drawn.axes[0].texts]
    assert sorted(" ".join(numbers).split(), key=int) == [str(number) for number in range(1, 10)]
    assert "1 2 3 4 5 6 7 8" in numbers
    names = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert "1 method-0" in names
    assert "9 knot †" in names


def test_what_failed_keeps_its_number_and_has_no_dot():
    cells = [cell("pga", 0.1), failed("fused", "Diverged."), cell("none", 0.3)]
    dots = picture_of(comparison(cells=cells)).numbered
    assert [(dot.number, dot.label) for dot in dots] == [(1, "pga"), (3, "none")]


def test_a_picture_without_a_method_is_drawn_all_the_same():
    assert "<svg" in as_html(comparison_page(comparison(cells=[failed("pga", "Diverged.")])))
