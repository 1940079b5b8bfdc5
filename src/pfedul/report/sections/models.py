"""Helpers for figures that exist once for each model: candidate, oracles, untouched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pfedul.base.text import extent, with_interval
from pfedul.report.material import Json
from pfedul.report.plots.rows import Mark, PlotRow
from pfedul.report.style import series_of

ModelFigures = Mapping[str, Json | None]


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
