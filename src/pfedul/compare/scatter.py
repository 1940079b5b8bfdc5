"""The scatter of a comparison: forgetting against preservation, oracles and untouched marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pfedul.report.blocks import Figure
from pfedul.report.series import BAND, GRID, INK, PAGE, SERIES
from pfedul.report.words import number, readable, shortened, signed
from pfedul.store import own_errors

Json = Mapping[str, Any]

X_LABEL = "mean excess of the attacks' AUC over the oracles (0: as if retrained)"
Y_LABEL = "PPS: accuracy that those who stay keep (up: preserved)"
_SIZE = (780.0, 560.0)


@dataclass(frozen=True)
class Dot:
    """One method or reference in the picture."""

    label: str
    x: float
    y: float
    series: str
    spread: tuple[float, float] = (0.0, 0.0)


def dots_of(found: Json) -> list[Dot]:
    """What is drawn: methods that came to a result, oracles, the untouched run."""
    dots = []
    for row in found["references"]:
        series = "untouched" if row["label"] == "untouched" else "oracle"
        if row["mean_excess"] is not None and row["pps"] is not None:
            dots.append(Dot(row["label"], row["mean_excess"], row["pps"], series))
    for row in found["methods"]:
        if row["mean_excess"] is None or row["pps"] is None:
            continue
        apart = {name: value or 0.0 for name, value in row["spread"].items()}
        series = "control" if row["control"] else "method"
        spread = apart["mean_excess"], apart["pps"]
        dots.append(Dot(readable(row["label"]), row["mean_excess"], row["pps"], series, spread))
    return dots


def scatter_figure(found: Json) -> Figure:
    """The picture for the page."""
    dots = dots_of(found)
    summary = "; ".join(f"{dot.label}: excess {signed(dot.x)}, PPS {number(dot.y)}" for dot in dots)
    draw = partial(draw_scatter, dots=dots, paint=_ON_PAGE)
    return Figure("Forgetting against preservation", summary, _SIZE, draw, wide=True)


def draw_scatter(figure: Any, dots: Sequence[Dot], paint: Mapping[str, str]) -> None:
    """Dots with their names beside them, moved apart where they would lie on each other."""
    axes = figure.add_subplot()
    oracles = [dot.x for dot in dots if dot.series == "oracle"]
    if oracles:
        axes.axvspan(min(oracles), max(oracles), color=paint["band"], linewidth=0)
    for dot in sorted(dots, key=lambda one: _ON_TOP.index(one.series)):
        _draw_dot(axes, dot, paint)
    axes.set_xlabel(X_LABEL)
    axes.set_ylabel(Y_LABEL)
    axes.grid(linewidth=0.8, color=paint["grid"])
    axes.set_axisbelow(True)
    axes.margins(0.12, 0.08)
    _draw_names(axes, dots, paint["ink"])


_ON_TOP = ("control", "method", "oracle", "untouched")
"""What the others are measured by is drawn last."""


def _draw_dot(axes: Any, dot: Dot, paint: Mapping[str, str]) -> None:
    series = SERIES[dot.series]
    axes.errorbar(
        [dot.x],
        [dot.y],
        xerr=[dot.spread[0]] if dot.spread[0] else None,
        yerr=[dot.spread[1]] if dot.spread[1] else None,
        marker=series.marker,
        markersize=8,
        color=paint[dot.series],
        markerfacecolor=paint["page" if dot.series == "oracle" else dot.series],
        linewidth=1,
        linestyle="none",
    )


def _draw_names(axes: Any, dots: Sequence[Dot], ink: str) -> None:
    """Each name beside its dot, at the nearest height where it covers no other name or dot."""
    low, high = axes.get_ylim()
    left, right = axes.get_xlim()
    height, gap, letter = (high - low) / 34, (right - left) / 100, (right - left) / 130
    taken = [(dot.x - gap, dot.x + gap, dot.y) for dot in dots]
    for dot in sorted(dots, key=lambda one: -one.y):
        text = shortened(dot.label, 38)
        length = letter * len(text)
        before = dot.x + gap + length > right
        start = dot.x - gap - length if before else dot.x + gap
        others = [box for box in taken if box != (dot.x - gap, dot.x + gap, dot.y)]
        y = _free_height(others, start, length, dot.y, height)
        taken.append((start, start + length, y))
        edge = dot.x - gap if before else dot.x + gap
        if abs(y - dot.y) > height / 2:
            axes.plot([dot.x, edge], [dot.y, y], color=ink, linewidth=0.5, alpha=0.6)
        axes.text(edge, y, text, va="center", ha="right" if before else "left", fontsize=9.5)


def _free_height(
    taken: Sequence[tuple[float, float, float]], x: float, length: float, y: float, height: float
) -> float:
    def free(at: float) -> bool:
        return all(
            x > end or x + length < start or abs(at - h) >= height for start, end, h in taken
        )

    for step in range(60):
        for at in (y - step * height / 2, y + step * height / 2):
            if free(at):
                return at
    return y


def save_scatter(found: Json, path: Path) -> None:
    """The same picture as a file, on white."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure as Canvas

    with rc_context({"text.parse_math": False, "font.size": 10}), own_errors(path.parent):
        canvas = Canvas(figsize=(9.6, 6.8), layout="constrained")
        draw_scatter(canvas, dots_of(found), _ON_WHITE)
        canvas.savefig(path, dpi=150, metadata={"Software": None})


_ON_PAGE = {name: series.colour for name, series in SERIES.items()}
_ON_PAGE |= {"ink": INK, "grid": GRID, "band": BAND, "page": PAGE}
"""Stand-ins for the colours of the page (report/series.py)."""

_ON_WHITE = {
    "method": "#0072b2",
    "oracle": "#009e73",
    "untouched": "#d55e00",
    "control": "#777777",
    "ink": "#222222",
    "grid": "#dddddd",
    "band": "#e8f4ef",
    "page": "#ffffff",
}
