"""Names in the scatter of a comparison, each beside its dot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pfedul.compare.dots import Dot
from pfedul.compare.placing import LINE_FROM, Field, Floats, as_rows, boxes_around, groups, placed

MARK = {"method": 7.0, "control": 7.5, "oracle": 8.5, "untouched": 14.0}
"""How large the marks of dots are, in points of print."""

_ON_EACH_OTHER = 3.0


def draw_names(figure: Any, axes: Any, dots: Sequence[Dot], look: Mapping[str, Any]) -> None:
    """Each name beside its dot, with a thin line to it where it had to move away."""
    figure.draw_without_rendering()  # from here on it is known where in the picture a dot is
    figure.set_layout_engine("none")
    scale = 72.0 / figure.dpi  # the same places whatever the resolution
    names, points = _names(axes, dots, scale)
    texts = [axes.text(0, 0, name, **look) for name in names]
    sizes = np.array([_size(text) for text in texts]).reshape(-1, 2) * scale
    boxes, lines = placed(_field(axes, dots, scale), points, sizes + 2.0)
    for text, box in zip(texts, boxes, strict=True):
        _put(axes, text, box + 1.0, scale)
    for line in lines:
        _draw_line(axes, line, look["color"], scale)


def _names(axes: Any, dots: Sequence[Dot], scale: float) -> tuple[list[str], Floats]:
    """Names and where their dots are; dots that lie on each other have one name together."""
    named = [dot for dot in dots if dot.named]
    points = np.reshape([(dot.x, dot.y) for dot in named], (-1, 2))
    pixels = np.asarray(axes.transData.transform(points)) * scale
    found = groups(pixels, _ON_EACH_OTHER)
    names = [", ".join(named[one].label for one in group) for group in found]
    return names, pixels[[group[0] for group in found]]


def _size(text: Any) -> tuple[float, float]:
    box = text.get_window_extent()
    return box.width, box.height


def _put(axes: Any, text: Any, box: Floats, scale: float) -> None:
    """By data coordinates: they hold for every resolution."""
    text.set_position(axes.transData.inverted().transform(box[:2] / scale))
    text.set_verticalalignment("bottom")


def _draw_line(axes: Any, line: Floats, ink: str, scale: float) -> None:
    start, end = line[:2], line[2:]
    if np.hypot(*(end - start)) > LINE_FROM:
        ends = axes.transData.inverted().transform(np.stack([start, end]) / scale)
        axes.plot(
            *ends.T, color=ink, linewidth=0.5, alpha=0.55, zorder=2, scalex=False, scaley=False
        )


def _field(axes: Any, dots: Sequence[Dot], scale: float) -> Field:
    """What names must not cover."""
    frame = axes.get_window_extent()
    points = axes.transData.transform([(dot.x, dot.y) for dot in dots]) * scale
    halves = [MARK[dot.series] / 2 + 1.0 for dot in dots]
    marks = np.concatenate(
        [boxes_around(point[None], half) for point, half in zip(points, halves, strict=True)]
    )
    ends = (frame.x0, frame.y0, frame.x1, frame.y1)
    left, bottom, right, top = (float(end) * scale for end in ends)
    bars = as_rows([bar for dot in dots for bar in _bars(axes, dot)] + [_zero(axes)])
    return Field((left + 2, bottom + 2, right - 2, top - 2), marks, bars * scale)


def _bars(axes: Any, dot: Dot) -> list[Floats]:
    across, up = dot.spread
    ends = [(dot.x - across, dot.y, dot.x + across, dot.y)] if across else []
    ends += [(dot.x, dot.y - up, dot.x, dot.y + up)] if up else []
    return [axes.transData.transform(np.reshape(bar, (2, 2))).ravel() for bar in ends]


def _zero(axes: Any) -> Floats:
    """The line over 0."""
    low, high = axes.get_ylim()
    return np.asarray(axes.transData.transform([(0.0, low), (0.0, high)])).ravel()
