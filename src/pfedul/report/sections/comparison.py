"""What the verdict rests on: each attack through each surface, against oracles and untouched."""

from __future__ import annotations

from pfedul.base.text import number, with_interval
from pfedul.report.blocks import Block, Gallery, Picture, Table, Text
from pfedul.report.material import Json, Material
from pfedul.report.plots.rows import PlotRow, Scale, common_ends, rows_figure
from pfedul.report.sections.models import in_words, marks_of, model_cells, model_rows
from pfedul.report.style import legend_of

FINDINGS = {
    "leak": "✗ leak",
    "reduced leak": "◐ reduced leak",
    "within": "✓ within the spread",
    "below": "✗ below: over-forgotten",
    "unclear": "? unclear",
    "nothing to see": "○ nothing to see",
}


def comparison_blocks(material: Material) -> list[Block]:
    """Differences at a glance, then each test, then the numbers."""
    tests = material.tests()
    if not tests:
        return [Text("No attack could be made, so no test speaks for or against.", "warning")]
    return [_differences(tests), _judgement_table(tests), _each(tests), _figures_table(tests)]


def name_of(test: Json) -> str:
    """A test in two words."""
    return f"{test['surface']}, {test['attack']}"


def _differences(tests: list[Json]) -> Gallery:
    rows = [_difference_row(test) for test in tests]
    summary = "; ".join(
        f"{name_of(test)}: {with_interval(test['difference'], sign=True)}, spread "
        f"{number(test.get('spread'))}, {test['finding']}"
        for test in tests
    )
    scale = Scale("difference to the mean of the oracles", line=0.0)
    figure = rows_figure("How far from retraining?", summary, rows, scale)
    caption = (
        "The judgement at a glance: zero is what retraining gives. The shaded spread is how far "
        "one retrained model is from the others, by chance alone. Where the untouched model is far "
        "off and the candidate is not, something was forgotten."
    )
    return Gallery(caption, (figure,), (*legend_of(_drawn(rows)), "band"))


def _drawn(rows: list[PlotRow]) -> list[str]:
    return [mark.series for row in rows for mark in row.marks]


def _difference_row(test: Json) -> PlotRow:
    marks = marks_of(
        {"candidate": test["difference"], "untouched": test.get("untouched_difference")}
    )
    spread = test.get("spread")
    return PlotRow(name_of(test), marks, None if spread is None else (-spread, spread))


def _each(tests: list[Json]) -> Gallery:
    rows = {name_of(test): model_rows(test["figures"]) for test in tests}
    every = [row for part in rows.values() for row in part]
    ends = common_ends(every, (0.4, 0.7))
    figures = tuple(_panel(test, rows[name_of(test)], ends) for test in tests)
    caption = "Each test with 95 % intervals; the dotted line is where an attacker can only guess."
    return Gallery(caption, figures, legend_of(_drawn(every)))


def _panel(test: Json, rows: list[PlotRow], ends: tuple[float, float]) -> Picture:
    scale = Scale(f"{test['metric']} of the attack", ends, test.get("best"))
    return rows_figure(name_of(test), in_words(test["figures"]), rows, scale, _finding(test))


def _finding(test: Json) -> str:
    return FINDINGS.get(test["finding"], str(test["finding"]))


def _figures_table(tests: list[Json]) -> Table:
    rows = [
        {"surface": test["surface"], "attack": test["attack"], "measure": test["metric"]}
        | model_cells(test["figures"])
        for test in tests
    ]
    return Table.of("What each attack reached", rows, words=3)


def _judgement_table(tests: list[Json]) -> Table:
    rows = [
        {
            "surface": test["surface"],
            "attack": test["attack"],
            "finding": _finding(test),
            "difference to oracles": with_interval(test["difference"], sign=True),
            "spread of oracles": number(test.get("spread")),
            "smallest visible leak": number(test.get("smallest_visible")),
            "less than untouched by": with_interval(test.get("reduction"), sign=True),
        }
        for test in tests
    ]
    return Table.of("What the verdict rests on", rows, words=3)
