"""The learning curve as two pictures that can stand side by side or one below the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pfedul.base.text import number, percent
from pfedul.report.blocks import Picture
from pfedul.report.plots import percent_tick
from pfedul.report.style import SERIES
from pfedul.report.svg import render

_SIZE = (340, 240)
_MEAN, _WORST, _LOSS = (SERIES[name].colour for name in ("candidate", "untouched", "oracle"))

Points = Sequence[Mapping[str, Any]]


def learning_curves(status: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Title and SVG of each curve that has a point."""
    pictures = _accuracy(status["accuracy"], status["figure"]), _loss(status["loss"])
    return [
        (picture.title, render(picture, f"curve{place}"))
        for place, picture in enumerate(pictures)
        if picture is not None
    ]


def _accuracy(points: Points, figure: str) -> Picture | None:
    if not points:
        return None
    first, last = points[0], points[-1]
    summary = (
        f"{figure}: mean over clients {percent(first['mean'])} after round {first['round']}, "
        f"{percent(last['mean'])} after round {last['round']}; lowest client then "
        f"{percent(last['worst'])}"
    )
    draw = partial(_draw_accuracy, points=points)
    return Picture("Accuracy of the personal models", summary, _SIZE, draw)


def _loss(points: Points) -> Picture | None:
    if not points:
        return None
    first, last = points[0], points[-1]
    summary = (
        f"{number(first['loss'])} in round {first['round']}, "
        f"{number(last['loss'])} in round {last['round']}"
    )
    return Picture("Training loss", summary, _SIZE, partial(_draw_loss, points=points))


def _draw_accuracy(figure: Any, points: Points) -> None:
    axes = figure.add_subplot()
    _line(axes, points, "mean", _MEAN, "-")
    _line(axes, points, "worst", _WORST, "--")
    axes.lines[1].set_label("lowest client")
    axes.legend(frameon=False)
    axes.yaxis.set_major_formatter(percent_tick)
    _frame(axes)


def _draw_loss(figure: Any, points: Points) -> None:
    axes = figure.add_subplot()
    _line(axes, points, "loss", _LOSS, "-")
    _frame(axes)


def _line(axes: Any, points: Points, key: str, colour: str, line: str) -> None:
    """A single point is a dot."""
    marker = "o" if len(points) == 1 else ""
    rounds, values = ([point[name] for point in points] for name in ("round", key))
    axes.plot(rounds, values, line, color=colour, marker=marker, label=key)


def _frame(axes: Any) -> None:
    axes.set_xlabel("round")
    axes.grid(linewidth=0.8)
    axes.xaxis.get_major_locator().set_params(integer=True)
