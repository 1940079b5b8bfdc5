"""The scatter of a comparison: forgetting against preservation, oracles and untouched marked.

The same drawing is on the page and in the file. It stands alone in a paper: title, legend with
the methods by number, what the bars and the shaded range are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pfedul.base.text import counted, number, signed
from pfedul.compare.labels import short_labels
from pfedul.compare.tables import OWN_BASE, is_oracle, marked, setting, who
from pfedul.report.blocks import Picture
from pfedul.report.material import Json
from pfedul.report.style import BAND, GRID, INK, PAGE, SERIES, on_white
from pfedul.store.folder import own_errors

TITLE = "Forgetting against preservation"
Point = tuple[float, float]
Colours = Mapping[str, str]

X_LABEL = "mean excess of the attacks' AUC over the oracles (0: as if retrained)"
Y_LABEL = "PPS: accuracy kept by the remaining clients (1: as before)"
_SHORT_X, _SHORT_Y = "mean excess of AUC over the oracles", "PPS"
_SIZE = (720.0, 740.0)
_NARROW, _ROW = (340.0, 330.0), 17.0
"""On a phone: the size without the legend, and what each row of that takes."""
_INCHES, _DPI = (9.0, 8.6), 150
_LETTERS_OF_PAGE, _LETTERS_OF_FILE = 11.0, 9.0

_MARK_SIZE = {"method": 7.0, "control": 7.5, "oracle": 8.5, "untouched": 14.0}
"""In points."""
_LAYER = {"control": 3, "method": 3, "oracle": 4, "untouched": 5}
"""Hollow marks are drawn last: what they lie on shows through."""


@dataclass(frozen=True)
class Dot:
    """One method or reference; `number` is 0 for references, whose marks the legend explains.

    `spread` is the standard deviation over seeds, across and up.
    """

    label: str
    x: float
    y: float
    series: str
    spread: Point = (0.0, 0.0)
    number: int = 0


@dataclass(frozen=True)
class Scatter:
    """All that is drawn."""

    title: str
    dots: tuple[Dot, ...]
    seeds: int

    @property
    def numbered(self) -> list[Dot]:
        return [dot for dot in self.dots if dot.number]

    @property
    def band(self) -> Point | None:
        """From the first to the last oracle of all runs."""
        oracles = [dot.x for dot in self.dots if dot.series == "oracle"]
        return (min(oracles), max(oracles)) if oracles else None


def picture_of(document: Json) -> Scatter:
    """The picture of a comparison, not drawn yet."""
    seeds = max((row["seeds"] for row in document["methods"]), default=1)
    title = f"{TITLE}: {setting(document)}\n{who(document)}"
    return Scatter(title, tuple(dots_of(document)), seeds)


def dots_of(document: Json) -> list[Dot]:
    """The untouched run, every oracle, and the methods that came to a result.

    Methods have the numbers of their rows in the tables.
    """
    oracles = document.get("reference_cells", document["references"])
    rows = [row for row in document["references"] if not is_oracle(row)]
    rows += [row for row in oracles if is_oracle(row)]
    names = short_labels(row["label"] for row in document["methods"])
    dots = [
        _dot(row, row["label"], "oracle" if is_oracle(row) else "untouched", number=0)
        for row in rows
    ]
    dots += [
        _dot(row, names[row["label"]], "control" if row["control"] else "method", number)
        for number, row in enumerate(document["methods"], start=1)
    ]
    return [dot for dot in dots if dot is not None]


def _dot(row: Json, name: str, series: str, number: int) -> Dot | None:
    if row["mean_excess"] is None or row["pps"] is None:
        return None
    spread = row.get("spread", {})
    across, up = spread.get("mean_excess") or 0.0, spread.get("pps") or 0.0
    return Dot(marked(row, name), row["mean_excess"], row["pps"], series, (across, up), number)


def scatter_figure(document: Json) -> Picture:
    """The picture for the page, which has the title over it."""
    picture = replace(picture_of(document), title="")
    summary = "; ".join(
        f"{_name(dot)}: excess {signed(dot.x)}, PPS {number(dot.y)}" for dot in picture.dots
    )
    draw = partial(draw_scatter, picture=picture, paint=_ON_PAGE, letters=_LETTERS_OF_PAGE)
    width, height = _NARROW
    size = width, height + _ROW * len(_legend(picture, _ON_PAGE))
    title = "Methods, oracles and the untouched run"
    narrow = Picture(title, summary, size, partial(draw, columns=1))
    return Picture(title, summary, _SIZE, draw, wide=True, narrow=narrow)


def _name(dot: Dot) -> str:
    return f"{dot.number} {dot.label}" if dot.number else dot.label


def draw_scatter(
    figure: Any, picture: Scatter, paint: Colours, letters: float, columns: int = 3
) -> None:
    """Dots over the band of the oracles, their numbers, and the legend in so many columns."""
    axes = figure.add_subplot()
    if picture.band is not None:
        axes.axvspan(*picture.band, color=paint["band"], linewidth=0, zorder=0)
    dotted = {"color": paint["ink"], "linewidth": 0.8, "linestyle": (0, (2, 3)), "zorder": 1}
    axes.axvline(0.0, **dotted)
    axes.axhline(1.0, **dotted)
    for dot in picture.dots:
        _draw_dot(axes, dot, paint)
    axes.set_xlabel(X_LABEL if columns > 1 else _SHORT_X)
    axes.set_ylabel(Y_LABEL if columns > 1 else _SHORT_Y)
    if picture.title:
        axes.set_title(picture.title, loc="left", fontsize=letters + 2, color=paint["ink"])
    axes.grid(linewidth=0.8, color=paint["grid"])
    axes.set_axisbelow(True)
    axes.margins(0.06, 0.08)
    place = {"loc": "outside lower left", "frameon": False, "columnspacing": 1.0}
    legend = {"fontsize": letters, "handlelength": 1.6, "ncols": columns, **place}
    figure.legend(handles=_legend(picture, paint), **legend)
    _draw_numbers(figure, axes, picture, {"color": paint["ink"], "fontsize": letters})


def _draw_dot(axes: Any, dot: Dot, paint: Colours) -> None:
    across, up = dot.spread
    axes.errorbar(
        [dot.x],
        [dot.y],
        xerr=[across] if across else None,
        yerr=[up] if up else None,
        ecolor=paint[dot.series],
        elinewidth=0.8,
        alpha=0.45,
        linestyle="none",
        zorder=2,
    )
    axes.plot([dot.x], [dot.y], **_mark(dot.series, paint), zorder=_LAYER[dot.series])


def _mark(series: str, paint: Colours) -> dict[str, Any]:
    hollow = series in {"oracle", "untouched"}
    return {
        "marker": SERIES[series].marker,
        "markersize": _MARK_SIZE[series],
        "color": paint[series],
        "markerfacecolor": "none" if hollow else paint[series],
        "markeredgewidth": 1.6 if hollow else 0.8,
        "markeredgecolor": paint[series] if hollow else paint["page"],
        "linestyle": "none",
    }


def _draw_numbers(figure: Any, axes: Any, picture: Scatter, look: Mapping[str, Any]) -> None:
    """The number of each method over its dot; dots that touch have theirs in one row."""
    figure.draw_without_rendering()  # the layout decides which dots touch
    figure.set_layout_engine("none")
    dots, scale = picture.numbered, 72.0 / figure.dpi
    points = [tuple(axes.transData.transform((dot.x, dot.y)) * scale) for dot in dots]
    near = 2.0 * look["fontsize"], 1.5 * look["fontsize"]
    for group in crowds(points, near):
        x = sum(dots[index].x for index in group) / len(group)
        y = max(dots[index].y for index in group)
        text = " ".join(str(dots[index].number) for index in group)
        place = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center", "zorder": 6}
        axes.annotate(text, (x, y), **place, **look)


def crowds(points: Sequence[Point], near: Point) -> list[list[int]]:
    """Groups of points that touch, directly or through others: their indices, left to right.

    >>> crowds([(9, 0), (0, 0), (30, 0), (15, 1)], near=(8, 4))
    [[1], [0, 3], [2]]
    """
    groups: list[list[int]] = []
    for index in sorted(range(len(points)), key=lambda index: points[index]):
        touching = [group for group in groups if any(_touch(points, index, i, near) for i in group)]
        groups = [group for group in groups if group not in touching]
        members = [i for group in touching for i in group]
        groups.append([*sorted(members, key=lambda i: points[i]), index])
    return groups


def _touch(points: Sequence[Point], one: int, two: int, near: Point) -> bool:
    return all(abs(points[one][axis] - points[two][axis]) < near[axis] for axis in (0, 1))


def _legend(picture: Scatter, paint: Colours) -> list[Any]:
    """The marks, then the methods by number."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    present = {dot.series for dot in picture.dots}
    entries: list[Any] = [
        Line2D([], [], label=words, **_mark(series, paint))
        for series, words in _LEGEND.items()
        if series in present
    ]
    if picture.band is not None:
        entries.append(Patch(color=paint["band"], label="range of the oracles: chance alone"))
    if any(any(dot.spread) for dot in picture.dots):
        words = f"± standard deviation over {counted(picture.seeds, 'seed')}"
        entries.append(Line2D([], [], color=paint["method"], alpha=0.6, linewidth=1, label=words))
    if any(OWN_BASE in dot.label for dot in picture.dots):
        words = f"{OWN_BASE} from a run of its own, in clusters"
        entries.append(Line2D([], [], linestyle="none", label=words))
    numbered = [
        Line2D([], [], label=_name(dot), **_mark(dot.series, paint)) for dot in picture.numbered
    ]
    return [*entries, *numbered]


_LEGEND = {
    "method": "unlearning method",
    "control": "control: no unlearning, or budgeted",
    "oracle": "oracle: retrained without the client",
    "untouched": "untouched run: nothing forgotten",
}


def save_scatter(document: Json, path: Path) -> None:
    """The same picture as a file, in the page's light colours."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure as Canvas

    look: dict[Any, Any] = {"text.parse_math": False, "font.size": 10}
    look |= {"axes.spines.top": False, "axes.spines.right": False}
    with rc_context(look), own_errors(path.parent):
        canvas = Canvas(figsize=_INCHES, layout="constrained")
        draw_scatter(canvas, picture_of(document), _ON_WHITE, _LETTERS_OF_FILE)
        canvas.savefig(path, dpi=_DPI, metadata={"Software": None})


_ON_PAGE = {name: series.colour for name, series in SERIES.items()}
_ON_PAGE |= {"ink": INK, "grid": GRID, "band": BAND, "page": PAGE}
"""Placeholders for the colours of the page (report/style.py)."""

_ON_WHITE = {name: on_white(colour) for name, colour in _ON_PAGE.items()}
