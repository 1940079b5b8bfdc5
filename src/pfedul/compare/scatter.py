"""The scatter of a comparison: forgetting against preservation, oracles and untouched marked.

One drawing for the page and for the file; it stands alone in a paper: title, legend, what
the bars and the shaded stretch are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pfedul.base.text import counted, number, signed
from pfedul.compare.dots import TITLE, Dot, Picture, picture_of
from pfedul.compare.naming import MARK, draw_names
from pfedul.compare.words import OWN_BASE
from pfedul.report.blocks import Figure
from pfedul.report.style import BAND, GRID, INK, PAGE, SERIES, on_white
from pfedul.store.folder import own_errors

Json = Mapping[str, Any]
Paint = Mapping[str, str]

X_LABEL = "mean excess of the attacks' AUC over the oracles (0: as if retrained)"
Y_LABEL = "PPS: accuracy kept by those who stay (1: as before)"
_SIZE = (980.0, 760.0)
_INCHES, _DPI = (9.6, 7.6), 200
_LETTERS_OF_PAGE, _LETTERS_OF_FILE = 11.0, 9.0


def scatter_figure(found: Json) -> Figure:
    """The picture for the page, which has the title over it."""
    picture = replace(picture_of(found), title="")
    summary = "; ".join(
        f"{dot.label}: excess {signed(dot.x)}, PPS {number(dot.y)}" for dot in picture.dots
    )
    draw = partial(draw_scatter, picture=picture, paint=_ON_PAGE, letters=_LETTERS_OF_PAGE)
    return Figure(TITLE, summary, _SIZE, draw, wide=True)


def draw_scatter(figure: Any, picture: Picture, paint: Paint, letters: float) -> None:
    """Dots over the band of the oracles, then names where there is room for them."""
    axes = figure.add_subplot()
    if picture.band is not None:
        axes.axvspan(*picture.band, color=paint["band"], linewidth=0, zorder=0)
    axes.axvline(0.0, color=paint["ink"], linewidth=0.8, linestyle=(0, (2, 3)), zorder=1)
    for dot in picture.dots:
        _draw_dot(axes, dot, paint)
    axes.set_xlabel(X_LABEL)
    axes.set_ylabel(Y_LABEL)
    if picture.title:
        axes.set_title(picture.title, loc="left", fontsize=letters + 2, color=paint["ink"])
    axes.grid(linewidth=0.8, color=paint["grid"])
    axes.set_axisbelow(True)
    axes.margins(0.1, 0.12)
    _draw_legend(figure, picture, paint, letters)
    draw_names(figure, axes, picture.dots, {"color": paint["ink"], "fontsize": letters})


_ABOVE = {"control": 3, "method": 3, "oracle": 4, "untouched": 5}
"""Hollow marks are drawn last: what they lie on shows through."""


def _draw_dot(axes: Any, dot: Dot, paint: Paint) -> None:
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
    axes.plot([dot.x], [dot.y], **_mark(dot.series, paint), zorder=_ABOVE[dot.series])


def _mark(series: str, paint: Paint) -> dict[str, Any]:
    hollow = series in {"oracle", "untouched"}
    return {
        "marker": SERIES[series].marker,
        "markersize": MARK[series],
        "color": paint[series],
        "markerfacecolor": "none" if hollow else paint[series],
        "markeredgewidth": 1.6 if hollow else 0.8,
        "markeredgecolor": paint[series] if hollow else paint["page"],
        "linestyle": "none",
    }


def _draw_legend(figure: Any, picture: Picture, paint: Paint, letters: float) -> None:
    """Under the picture, where it covers nothing."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    present = dict.fromkeys(dot.series for dot in picture.dots)
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
    place = {"loc": "outside lower center", "ncols": 3, "frameon": False}
    figure.legend(handles=entries, fontsize=letters, **place)


_LEGEND = {
    "method": "unlearning method",
    "control": "control: no unlearning, or budgeted",
    "oracle": "oracle: retrained without the client",
    "untouched": "untouched run: nothing forgotten",
}


def save_scatter(found: Json, path: Path) -> None:
    """The same picture as a file, in the colours of the page on white."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure as Canvas

    look: dict[Any, Any] = {"text.parse_math": False, "font.size": 10}
    look |= {"axes.spines.top": False, "axes.spines.right": False}
    with rc_context(look), own_errors(path.parent):
        canvas = Canvas(figsize=_INCHES, layout="constrained")
        draw_scatter(canvas, picture_of(found), _ON_WHITE, _LETTERS_OF_FILE)
        canvas.savefig(path, dpi=_DPI, metadata={"Software": None})


_ON_PAGE = {name: series.colour for name, series in SERIES.items()}
_ON_PAGE |= {"ink": INK, "grid": GRID, "band": BAND, "page": PAGE}
"""Stand-ins for the colours of the page (report/series.py)."""

_ON_WHITE = {name: on_white(colour) for name, colour in _ON_PAGE.items()}
