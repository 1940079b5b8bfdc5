"""One picture of a removal for a README or a slide: what could be seen before and after it.

Under each other: the run before, then every removal that was measured from there. Each has a row
for each surface, with the AUC of the attack and its interval; the dotted line is a model that
never saw the client. One column and large letters: it can be read on a phone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfedul.base.text import joined, number, shortened
from pfedul.errors import PfedulError
from pfedul.report.looks import look_of, with_sign
from pfedul.report.material import Json
from pfedul.report.plots import Mark, PlotRow, common_ends, marks_of
from pfedul.report.removals import Removal
from pfedul.report.style import GRID, INK, SERIES, light, on_white

SURFACES = {
    "remaining": "the others' models",
    "stale": "the client's old head",
    "probe": "a fresh probe",
    "shared": "the shared model",
}
NEVER_SAW = 0.5
"""The AUC of a model that never saw the client."""

_WIDTH, _DPI = 7.2, 200
_LINE = 0.34
"""Inches that a line of text or a row takes."""
_LETTERS, _TITLE = 15.0, 18.0
_EDGE, _PLOT = 0.02, (0.40, 0.97)
"""Where text begins, and the plot from left to right, as shares of the width."""


@dataclass(frozen=True)
class Panel:
    """One model: its heading, its verdict with a tone, figures in words, and its rows."""

    title: str
    verdict: str
    tone: str
    words: str
    rows: tuple[PlotRow, ...]

    @property
    def lines(self) -> int:
        """A gap, the heading, the line under it if there is one, and the rows."""
        return 2 + bool(self.verdict or self.words) + len(self.rows)


def panels_of(removals: Sequence[Removal]) -> list[Panel]:
    """Before, then each removal in the order given."""
    before = Panel("Before", "", "unknown", "", _rows(removals[-1].tests, "untouched"))
    return [before, *map(_panel, removals)]


def _panel(removal: Removal) -> Panel:
    known = [
        f"PPS {number(removal.pps, 2)}" if removal.pps is not None else "",
        f"price {100 * removal.price:.0f} %" if removal.price is not None else "",
    ]
    return Panel(
        f"After {shortened(removal.name, 48)}",
        with_sign(removal.verdict) if removal.verdict else "",
        look_of(removal.verdict).tone,
        ", ".join(words for words in known if words),
        _rows(removal.tests, "candidate"),
    )


def _rows(tests: Sequence[Json], model: str) -> tuple[PlotRow, ...]:
    """A row for each test whose figure is known; attacks are named where there are several."""
    several = len({test["attack"] for test in tests}) > 1
    rows = []
    for test in tests:
        name = SURFACES.get(surface := str(test["surface"]), surface)
        label = f"{name}, {test['attack']}" if several else name
        rows.append(PlotRow(label, marks_of({model: test["figures"].get(model)})))
    return tuple(row for row in rows if row.marks)


def save_picture(removals: Sequence[Removal], path: Path) -> None:
    """Draw the picture into a file, in the light colours of the page."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    panels, notes = panels_of(removals), list(_notes(removals[-1]))
    height = _LINE * (3 + sum(panel.lines for panel in panels) + 2.6 + len(notes))
    with rc_context({"text.parse_math": False, "font.size": _LETTERS}):
        figure = Figure(figsize=(_WIDTH, height), dpi=_DPI)
        _draw(_Sheet(figure, height), f"Can {_who(removals)} be recognised?", panels, notes)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, metadata={"Software": None} if path.suffix == ".png" else None)
        except (OSError, ValueError) as error:
            raise PfedulError(f"The picture cannot be saved as {path}: {error}.") from None


def _who(removals: Sequence[Removal]) -> str:
    return shortened(joined(removals[-1].targets), 30)


def _notes(removal: Removal) -> Iterator[str]:
    members, others = (removal.samples.get(key) for key in ("members", "nonmembers"))
    if members and others:
        yield f"About {members} training against {others} test samples; 95 % intervals."
    if removal.pps is not None:
        yield "PPS: accuracy that the other clients kept, 1 is all."
    if removal.price is not None:
        yield "Price: CPU time, in percent of retraining."


@dataclass
class _Sheet:
    """A figure that is filled line by line from the top; `used` counts lines."""

    figure: Any
    height: float
    used: float = 0.0

    def at(self, lines: float) -> float:
        """The vertical place of a line, as a share of the height."""
        return 1 - lines * _LINE / self.height

    def write(self, text: str, x: float = _EDGE, **look: Any) -> None:
        """Text in the middle of the line that is next."""
        look = {"color": on_white(INK), "va": "center", **look}
        self.figure.text(x, self.at(self.used + 0.5), text, **look)


def _draw(sheet: _Sheet, title: str, panels: Sequence[Panel], notes: Sequence[str]) -> None:
    sheet.used = 0.3
    sheet.write(title, fontsize=_TITLE, fontweight="bold")
    sheet.used += 1.3
    top = sheet.used + 1
    rows = [row for panel in panels for row in panel.rows]
    ends = common_ends(rows, (0.4, 0.8))
    _write_reference(sheet, ends)
    blocks = [_write_panel(sheet, panel) for panel in panels]
    axes = _axes(sheet, top, ends)
    for block in blocks:
        _draw_rows(axes, block)
    sheet.used += 2.2
    for note in notes:
        sheet.write(note, color=light("muted"))
        sheet.used += 1


def _write_reference(sheet: _Sheet, ends: tuple[float, float]) -> None:
    """What the dotted line is, over it."""
    left, right = _PLOT
    x = left + (right - left) * (NEVER_SAW - ends[0]) / (ends[1] - ends[0])
    sheet.write("a model that never saw it", x, ha="center", color=light("muted"))
    sheet.used += 0.6


def _write_panel(sheet: _Sheet, panel: Panel) -> list[tuple[float, PlotRow]]:
    """The words of a panel; returns its rows with their places, counted in lines."""
    sheet.used += 0.5
    sheet.write(panel.title, fontweight="bold")
    sheet.used += 1
    if panel.verdict or panel.words:
        sheet.write(panel.verdict, color=light(panel.tone), fontweight="bold")
        sheet.write(panel.words, _PLOT[1], ha="right")
        sheet.used += 1
    places = []
    for row in panel.rows:
        sheet.write(shortened(row.label, 22), 2 * _EDGE)
        places.append((sheet.used + 0.5, row))
        sheet.used += 1
    sheet.used += 0.5
    return places


def _axes(sheet: _Sheet, top: float, ends: tuple[float, float]) -> Any:
    """Under the words, from line `top` to the line that is next, with lines as its scale."""
    left, right = _PLOT
    low, high = sheet.at(sheet.used), sheet.at(top)
    axes = sheet.figure.add_axes((left, low, right - left, high - low), frameon=False)
    axes.set(xlim=ends, ylim=(sheet.used, top), yticks=[])
    axes.set_xlabel("AUC: training against test samples", color=on_white(INK), x=0.35)
    axes.locator_params(axis="x", nbins=5)
    axes.tick_params(length=0, colors=on_white(INK))
    axes.axhline(sheet.used, color=on_white(GRID), linewidth=3)
    return axes


def _draw_rows(axes: Any, rows: Sequence[tuple[float, PlotRow]]) -> None:
    """The rows of a panel over the dotted line."""
    dotted = {"color": on_white(INK), "linewidth": 1.6, "linestyle": (0, (1, 2)), "zorder": 1}
    places = [place for place, _ in rows]
    if places:
        axes.plot([NEVER_SAW] * 2, [places[0] - 0.5, places[-1] + 0.5], **dotted)
    for place, row in rows:
        for mark in row.marks:
            _draw_mark(axes, place, mark)


def _draw_mark(axes: Any, place: float, mark: Mark) -> None:
    series = SERIES[mark.series]
    colour = on_white(series.colour)
    if mark.interval is not None:
        axes.plot(mark.interval, [place, place], color=colour, linewidth=3)
    axes.plot([mark.value], [place], marker=series.marker, markersize=10, color=colour)
