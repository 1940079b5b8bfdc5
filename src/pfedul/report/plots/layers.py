"""Drawings of a plan and of every client's score on every layer, for pages and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfedul.errors import PfedulError
from pfedul.unlearn.pfedul.result import Plan

CHOSEN, OTHER = "#d55e00", "#0072b2"
"""Orange and blue of the Okabe-Ito palette."""

SHADES = 32
"""Steps of the colour scale: below 50 it is drawn as vectors, not as an image."""


@dataclass(frozen=True)
class Paint:
    """The colours of a drawing: chosen layers, others, the threshold."""

    chosen: str = CHOSEN
    other: str = OTHER
    line: str = "black"


@dataclass(frozen=True)
class ScoreBar:
    """One layer of a plan, as it is drawn."""

    name: str
    score: float
    chosen: bool


def save_plan(plan: Plan, path: Path) -> None:
    """Bars of the scores, the threshold as a line, chosen layers in orange."""
    figure, axes = _axes(6.4, 1.2 + 0.26 * max(len(plan.layers), 1))
    bars = [ScoreBar(layer.name, layer.score, layer.selected) for layer in plan.layers]
    draw_scores(axes, bars, plan.threshold, Paint())
    title = f"Layers shaped by {', '.join(plan.targets)} (filled orange: corrected)"
    axes.set_title(title, fontsize=10, parse_math=False)
    _save(figure, path)


def save_score_map(
    scores: Mapping[str, Sequence[float]], layers: Sequence[str], path: Path
) -> None:
    """Clients x layers as a heat map with its scale."""
    figure, axes = _axes(max(5.2, 2.5 + 0.36 * len(layers)), 2.2 + 0.3 * len(scores))
    draw_score_map(axes, scores, layers)
    axes.set_title("Contribution score of each client on each layer", fontsize=10)
    _save(figure, path)


def draw_scores(axes: Any, bars: Sequence[ScoreBar], threshold: float, paint: Paint) -> None:
    """Bars from top to bottom: filled where the layer is chosen, hollow where it is not."""
    places = range(len(bars))
    edges = [paint.chosen if bar.chosen else paint.other for bar in bars]
    fills = [paint.chosen if bar.chosen else "none" for bar in bars]
    scores = [bar.score for bar in bars]
    axes.barh(places, scores, height=0.66, color=fills, edgecolor=edges, linewidth=1.2)
    axes.axvline(threshold, color=paint.line, linestyle="--", linewidth=1)
    axes.set_yticks(places, [bar.name for bar in bars], parse_math=False)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.locator_params(axis="x", nbins=5)
    axes.set_xlabel(f"contribution score (dashed: threshold {threshold:.4f})")


def draw_score_map(axes: Any, scores: Mapping[str, Sequence[float]], layers: Sequence[str]) -> None:
    """A heat map, clients down, layers across, with its scale."""
    from matplotlib import colormaps

    shades = colormaps["cividis"].resampled(SHADES)
    fields = axes.pcolormesh(list(scores.values()), cmap=shades)
    axes.set_xticks(
        [place + 0.5 for place in range(len(layers))], layers, rotation=90, parse_math=False
    )
    axes.set_yticks([place + 0.5 for place in range(len(scores))], list(scores), parse_math=False)
    axes.tick_params(labelsize=10, length=0)
    axes.invert_yaxis()
    axes.set_xlabel("shared layer")
    shape = max(14, len(scores))  # of the scale: no wider for many clients
    scale = axes.figure.colorbar(
        fields, ax=axes, label="contribution score", pad=0.02, aspect=shape
    )
    scale.solids.set_edgecolor("face")  # no gaps between the shades


def _axes(width: float, height: float) -> tuple[Any, Any]:
    # Imported here: this takes a second that commands without pictures do not need.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _save(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise PfedulError(f"The picture cannot be saved as {path}: {error}.") from None
