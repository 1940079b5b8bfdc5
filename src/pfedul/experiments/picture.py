"""The picture of an experiment: bars, lines or a frontier, one panel for each figure or group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pfedul.compare.labels import short_labels
from pfedul.experiments.base import UNTOUCHED

Document = Mapping[str, Any]
Cell = Mapping[str, Any]

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#999999"
PRINTED = "what the paper prints"
DPI = 130


def save_picture(document: Document, file: Path) -> None:
    """Draw the document into a PNG file."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    look: dict[Any, Any] = {"axes.spines.top": False, "axes.spines.right": False}
    with rc_context({**look, "text.parse_math": False}):
        draw = {"bars": _draw_bars, "lines": _draw_lines, "frontier": _draw_frontier}
        figure = Figure(dpi=DPI, layout="constrained")
        draw[document["picture"]["kind"]](figure, document)
        figure.savefig(file, facecolor="white", metadata={"Software": None})


# Bars: a row for each method, a panel for each figure


def _draw_bars(figure: Any, document: Document) -> None:
    columns, names = document["columns"], [row["name"] for row in document["rows"]]
    (group,) = document["groups"]
    figure.set_size_inches(2.2 + 2.6 * len(columns), 1.2 + 0.36 * len(names))
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for panel, column in zip(panels, columns, strict=True):
        cells = [group["cells"][name][column["name"]] for name in names]
        _bars(panel, cells)
        panel.set_title(column["title"], loc="left", fontsize=11)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
    _legend(figure, panels)


def _bars(panel: Any, cells: Sequence[Cell]) -> None:
    places = [place for place, cell in enumerate(cells) if cell["mean"] is not None]
    means = [cells[place]["mean"] for place in places]
    spread = [cells[place]["deviation"] or 0.0 for place in places]
    panel.barh(places, means, xerr=spread, color=COLOURS[0], ecolor=GREY, height=0.6, zorder=2)
    stated = [(cell["printed"], place) for place, cell in enumerate(cells) if cell["printed"]]
    if stated:
        x, y = zip(*stated, strict=True)
        look = {"marker": "D", "facecolors": "white", "edgecolors": COLOURS[1], "zorder": 3}
        panel.scatter(x, y, s=36, label=PRINTED, **look)
    every = [*means, *(value for value, _ in stated)]
    if every:
        low, high = min(every), max(every)
        panel.set_xlim(max(0.0, low - 0.5 * (high - low) - 0.02 * high), None)


# Lines: an axis over groups or rows, a panel for each figure


def _draw_lines(figure: Any, document: Document) -> None:
    columns, axis = document["columns"], document["picture"]
    figure.set_size_inches(4.4 * len(columns), 4.2)
    panels = figure.subplots(1, len(columns), squeeze=False)[0]
    for panel, column in zip(panels, columns, strict=True):
        for number, (name, cells) in enumerate(_series(document, column["name"]).items()):
            _line(panel, axis["x"], cells, name, COLOURS[number % 7], MARKS[number % 7])
        panel.set_title(column["title"], loc="left", fontsize=11)
        panel.set_xlabel(axis["axis"])
        panel.set_xticks(axis["x"], [f"{x:g}" for x in axis["x"]])
        panel.grid(axis="y", linewidth=0.6, color="#dddddd")
    _legend(figure, panels)


def _series(document: Document, column: str) -> dict[str, list[Cell]]:
    """Name of a line -> its cells in the order of the axis."""
    groups, series = document["groups"], document["picture"]["series"]
    if series:
        (group,) = groups
        return {n: [group["cells"][row][column] for row in rows] for n, rows in series.items()}
    names = [row["name"] for row in document["rows"]]
    return {name: [group["cells"][name][column] for group in groups] for name in names}


def _line(
    panel: Any, x: Sequence[float], cells: Sequence[Cell], name: str, colour: str, mark: str
) -> None:
    known = [
        (place, cell) for place, cell in zip(x, cells, strict=True) if cell["mean"] is not None
    ]
    if known:
        places, means = [p for p, _ in known], [c["mean"] for _, c in known]
        spread = [c["deviation"] or 0.0 for _, c in known]
        look = {"color": colour, "marker": mark, "capsize": 2, "elinewidth": 0.8}
        panel.errorbar(places, means, yerr=spread, label=name, **look)
    stated = [(place, c["printed"]) for place, c in zip(x, cells, strict=True) if c["printed"]]
    if stated:
        at, values = zip(*stated, strict=True)
        look = {"facecolors": "none", "edgecolors": colour, "s": 110, "linewidths": 1.4}
        panel.scatter(at, values, label=f"{name}: {PRINTED}", zorder=3, **look)


# The frontier: a mark for each method, a panel for each group


def _draw_frontier(figure: Any, document: Document) -> None:
    """Leak removed against PPS; the area of a mark grows with the cost."""
    groups, names = document["groups"], [row["name"] for row in document["rows"]]
    numbers = {name: number for number, name in enumerate(names, start=1)}
    figure.set_size_inches(6.4 * len(groups), 6.0 + 0.07 * len(names))
    panels = figure.subplots(1, len(groups), sharey=True, squeeze=False)[0]
    for panel, group in zip(panels, groups, strict=True):
        for name in names:
            _mark(panel, group["cells"][name], name, numbers[name])
        panel.axvline(100, color="#cccccc", zorder=0)
        panel.axhline(1, color="#cccccc", zorder=0)
        panel.set_title(group["name"], loc="left", fontsize=11)
        panel.set_xlabel("share of the leak removed, %")
    panels[0].set_ylabel("PPS: accuracy kept by the remaining clients")
    _numbers_below(figure, names)


def _mark(panel: Any, cells: Mapping[str, Cell], name: str, number: int) -> None:
    removed, pps = cells["removed"]["mean"], cells["pps"]["mean"]
    if removed is None or pps is None:
        return
    speedup = cells["cpu_speedup"]["mean"]
    cost = 1 / speedup if speedup else 0.0
    colour = COLOURS[0] if name.startswith("pfedul") else GREY
    area = 30 + 400 * min(cost, 1.5)
    panel.scatter([removed], [pps], s=area, color=colour, alpha=0.6, linewidths=0)
    panel.annotate(str(number), (removed, pps), ha="center", va="center", fontsize=7)


def _numbers_below(figure: Any, names: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    labels = {UNTOUCHED: UNTOUCHED, **short_labels(names)}
    entries = [
        Line2D([], [], linestyle="none", label=f"{number} {labels[name]}")
        for number, name in enumerate(names, start=1)
    ]
    look = {"loc": "outside lower left", "ncols": 4, "frameon": False, "fontsize": 7}
    figure.legend(handles=entries, handlelength=0, **look)


def _legend(figure: Any, panels: Sequence[Any]) -> None:
    """Every name once: a panel may lack what another shows."""
    known: dict[str, Any] = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        known = {**dict(zip(labels, handles, strict=True)), **known}
    if known:
        place = {"loc": "outside lower center", "ncols": min(4, len(known)), "frameon": False}
        figure.legend(list(known.values()), list(known), fontsize=9, **place)
