"""Figures of models as dots with intervals in named rows: tests, clients, distances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pfedul.base.text import extent, shortened, typeset, with_interval
from pfedul.report.blocks import Picture
from pfedul.report.material import Json
from pfedul.report.style import BAND, GRID, INK, SERIES, series_of

_WIDTH = 340
_ROW_HEIGHT, _ROW_HEIGHT_SHARED, _FRAME_HEIGHT = 21, 27, 56

ModelFigures = Mapping[str, Json | None]
"""A figure for each model: candidate, oracles, untouched."""


@dataclass(frozen=True)
class Mark:
    """One dot: the series says how it looks."""

    series: str
    value: float
    interval: Sequence[float] | None = None


@dataclass(frozen=True)
class PlotRow:
    """A name, its dots, and a shaded range to compare them with."""

    label: str
    marks: tuple[Mark, ...]
    band: tuple[float, float] | None = None


@dataclass(frozen=True)
class Scale:
    """The horizontal axis: its name, its ends (None: from the data), a reference line."""

    label: str
    ends: tuple[float, float] | None = None
    line: float | None = None
    percent: bool = False
    linked: bool = False


def in_order(models: Iterable[str]) -> list[str]:
    """Candidate, untouched, then the oracles in their order.

    >>> in_order(["oracle 10", "oracle 2", "untouched", "candidate"])
    ['candidate', 'untouched', 'oracle 2', 'oracle 10']
    """
    first = {"candidate": 0, "untouched": 1, "fresh": 3}
    return sorted(models, key=lambda model: (first.get(model, 2), len(model), model))


def marks_of(figures: ModelFigures) -> tuple[Mark, ...]:
    """A mark for each model that was measured, in the order given.

    >>> [mark.series for mark in marks_of({"candidate": {"value": 0.5}, "untouched": None})]
    ['candidate']
    """
    return tuple(
        Mark(series_of(model).name, figure["value"], figure.get("interval"))
        for model, figure in figures.items()
        if figure is not None and figure.get("value") is not None
    )


def model_rows(figures: ModelFigures) -> list[PlotRow]:
    """A row for each model that was measured."""
    rows = [PlotRow(model, marks_of({model: figures[model]})) for model in in_order(figures)]
    return [row for row in rows if row.marks]


def drawn_series(rows: Iterable[PlotRow]) -> list[str]:
    return [mark.series for row in rows for mark in row.marks]


def model_cells(figures: ModelFigures) -> dict[str, str]:
    """Candidate, oracles from the smallest to the largest, untouched, for a table."""
    oracles = [mark.value for mark in marks_of(figures) if mark.series == "oracle"]
    return {
        "candidate": with_interval(figures.get("candidate")),
        "oracles": extent(oracles),
        "untouched": with_interval(figures.get("untouched")),
    }


def in_words(figures: ModelFigures) -> str:
    """Every model with its figure, as text."""
    return "; ".join(f"{model} {with_interval(figures[model])}" for model in in_order(figures))


# Drawings


def rows_figure(
    title: str, summary: str, rows: Sequence[PlotRow], scale: Scale, remark: str = ""
) -> Picture:
    """A picture of these rows, as high as they need."""
    each = _ROW_HEIGHT_SHARED if any(_is_crowded(row) for row in rows) else _ROW_HEIGHT
    size = _WIDTH, _FRAME_HEIGHT + each * len(rows)
    draw = partial(_draw, rows=tuple(rows), scale=scale)
    return Picture(title, summary, size, draw, remark=remark)


def _is_crowded(row: PlotRow) -> bool:
    """Whether intervals would overlap: then they are drawn one under the other."""
    return sum(mark.interval is not None for mark in row.marks) > 1


def _draw(figure: Any, rows: Sequence[PlotRow], scale: Scale) -> None:
    axes = figure.add_subplot()
    for place, row in enumerate(rows):
        _draw_row(axes, place, row, scale.linked)
    axes.set_yticks(range(len(rows)), [shortened(row.label, 22) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", linewidth=0.8)
    axes.set_axisbelow(True)
    _draw_scale(axes, scale)


def _draw_row(axes: Any, place: int, row: PlotRow, linked: bool) -> None:
    if row.band is not None:
        low, high = row.band
        axes.fill_betweenx((place - 0.42, place + 0.42), low, high, color=BAND, linewidth=0)
    if linked and len(row.marks) > 1:
        ends = [mark.value for mark in row.marks[:2]]
        axes.plot(ends, [place, place], color=INK, linewidth=1, alpha=0.5)
    count = len(row.marks) if _is_crowded(row) else 1
    for index, mark in enumerate(row.marks):
        height = place + (0.26 * (index - (count - 1) / 2) if count > 1 else 0.0)
        _draw_mark(axes, height, mark)


def _draw_mark(axes: Any, height: float, mark: Mark) -> None:
    series = SERIES[mark.series]
    if mark.interval is not None:
        axes.plot(mark.interval, [height, height], color=series.colour, linewidth=1.8)
    axes.plot(
        [mark.value],
        [height],
        marker=series.marker,
        markersize=series.size,
        color=series.colour,
        markerfacecolor=series.fill,
        linestyle="none",
    )


def _draw_scale(axes: Any, scale: Scale) -> None:
    axes.set_xlabel(scale.label)
    if scale.ends is not None:
        axes.set_xlim(*scale.ends)
    if scale.line is not None:
        axes.axvline(scale.line, color=INK, linewidth=1, linestyle=(0, (1, 2)))
    axes.locator_params(axis="x", nbins=5)
    if scale.percent:
        axes.xaxis.set_major_formatter(percent_tick)
    axes.xaxis.grid(color=GRID)


def common_ends(rows: Sequence[PlotRow], at_least: tuple[float, float]) -> tuple[float, float]:
    """One scale for several pictures, to make them comparable.

    >>> common_ends([PlotRow("a", (Mark("candidate", 0.5, [0.2, 0.6]),))], (0.4, 0.6))
    (0.19, 0.61)
    """
    marks = [mark for row in rows for mark in row.marks]
    ends = [end for mark in marks for end in (mark.interval or [mark.value])]
    bands = [end for row in rows for end in row.band or ()]
    low, high = min([*ends, *bands, at_least[0]]), max([*ends, *bands, at_least[1]])
    room = 0.025 * (high - low)
    return round(low - room, 6), round(high + room, 6)


LEAST_WIDTH = 0.2
"""Of an axis of accuracies: on a shorter one a single sample would look like a fall."""


def wide_ends(rows: Sequence[PlotRow]) -> tuple[float, float]:
    """Ends of an axis of shares, at least `LEAST_WIDTH` apart; marks at 1 are drawn in full.

    >>> wide_ends([PlotRow("a", (Mark("before", 0.94), Mark("after", 1.0)))])
    (0.8, 1.02)
    """
    values = [mark.value for row in rows for mark in row.marks]
    low = min(min(values) - 0.02, max(values) - LEAST_WIDTH)
    return round(low, 6), round(max(values) + 0.02, 6)


def percent_tick(value: float, _place: int | None = None) -> str:
    """A share in per cent, with as many digits as the tick needs.

    >>> percent_tick(0.875), percent_tick(0.9)
    ('87.5 %', '90 %')
    """
    return typeset(f"{round(100 * value, 6):g} %")
