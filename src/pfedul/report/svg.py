"""Figures as inline SVG: text stays text, colours are CSS variables of the page."""

from __future__ import annotations

import io
import re
import warnings
from typing import Any
from xml.etree import ElementTree

from pfedul.report.blocks import Picture
from pfedul.report.style import GRID, INK, INKS

_LOOK: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "pfedul",
    "text.parse_math": False,  # a client may be called $x$
    "font.size": 11,
    "axes.labelsize": 11,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 10.5,
    "ytick.labelsize": 10.5,
    "grid.color": GRID,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), INK),
}
_UNITS_PER_INCH = 72  # of the SVG: one unit is one pixel of the page
_NAMESPACE = re.compile(r"^\{[^}]*\}")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_REFERENCE = re.compile(r"#([\w.-]+)")
_FONTS = re.compile(r"font-family: [^;]*;? ?")


def render(figure: Picture, prefix: str) -> str:
    """Draw `figure` as an `<svg>` element; every id in it begins with `prefix`."""
    root = _without_namespaces(ElementTree.fromstring(_drawn(figure)))
    _drop(root, "metadata", "style")  # a style would apply to the whole page
    _rename_ids(root, prefix)
    for node in root.iter():
        _repaint(node)
    _label(root, figure, prefix)
    return ElementTree.tostring(root, encoding="unicode")


def _drawn(figure: Picture) -> str:
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    width, height = (pixels / _UNITS_PER_INCH for pixels in figure.size)
    with rc_context(_LOOK), warnings.catch_warnings():
        # The browser has letters that the font used for measuring lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        canvas = Canvas(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(canvas)
        canvas.patch.set_visible(False)
        figure.draw(canvas)
        for axes in canvas.axes:
            axes.patch.set_visible(False)
        _lay_out(canvas)
        target = io.StringIO()
        canvas.savefig(target, format="svg", metadata={"Date": None})
    return target.getvalue()


def _lay_out(canvas: Any) -> None:
    """Lay out here, once: with a layout engine `savefig` draws everything twice."""
    engine = canvas.get_layout_engine()
    if engine is not None:
        engine.execute(canvas)
        canvas.set_layout_engine(None)


def _without_namespaces(root: Any) -> Any:
    for node in root.iter():
        node.tag = _NAMESPACE.sub("", node.tag)
        node.attrib = {_NAMESPACE.sub("", key): value for key, value in node.attrib.items()}
    return root


def _drop(root: Any, *tags: str) -> None:
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in tags]:
            parent.remove(child)


def _rename_ids(root: Any, prefix: str) -> None:
    used = {name for node in root.iter() for name in _references(node)}
    for node in root.iter():
        name = node.attrib.pop("id", None)
        if name in used:
            node.set("id", f"{prefix}-{name}")
        for key in ("href", "clip-path"):
            if key in node.attrib:
                node.set(key, _REFERENCE.sub(rf"#{prefix}-\1", node.get(key)))


def _references(node: Any) -> list[str]:
    return [name for key in ("href", "clip-path") for name in _REFERENCE.findall(node.get(key, ""))]


def _repaint(node: Any) -> None:
    style = _FONTS.sub("", node.get("style", ""))
    for drawn, shown in INKS.items():
        style = style.replace(drawn, shown)
    if style:
        node.set("style", style)
    for key in ("d", "x", "y", "width", "height", "transform"):
        if key in node.attrib:
            node.set(key, _LONG_NUMBER.sub(_rounded, " ".join(node.get(key).split())))


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number.group()):.2f}"


def _label(root: Any, figure: Picture, prefix: str) -> None:
    width, height = figure.size
    root.attrib = {
        "viewBox": f"0 0 {width:g} {height:g}",
        "width": f"{width:g}",
        "height": f"{height:g}",
        "role": "img",
        "aria-labelledby": f"{prefix}-title {prefix}-summary",
    }
    words = (("title", "title", figure.title), ("desc", "summary", figure.summary))
    for place, (tag, name, text) in enumerate(words):
        node = ElementTree.Element(tag, {"id": f"{prefix}-{name}"})
        node.text = text
        root.insert(place, node)
