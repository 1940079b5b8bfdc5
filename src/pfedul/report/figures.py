"""Figures: the plan of a removal, and every client's score on every layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pfedul.errors import PfedulError
from pfedul.unlearn.plan import Plan

CHOSEN, OTHER = "#d55e00", "#0072b2"
"""Orange and blue of the Okabe-Ito palette: told apart by colour-blind readers, too."""


def save_plan(plan: Plan, path: Path) -> None:
    """Bars of the scores, the threshold as a line, chosen layers in orange."""
    figure, axes = _axes(6.4, 1.2 + 0.26 * max(len(plan.layers), 1))
    names = [layer.name for layer in plan.layers]
    colours = [CHOSEN if layer.selected else OTHER for layer in plan.layers]
    axes.barh(names, [layer.score for layer in plan.layers], color=colours)
    axes.axvline(plan.threshold, color="black", linestyle="--", linewidth=1)
    axes.invert_yaxis()
    label = f"contribution score (dashed: threshold {plan.threshold:.4f})"
    axes.set_xlabel(label)
    axes.set_title(f"Layers shaped by {', '.join(plan.targets)} (orange: corrected)", fontsize=10)
    _save(figure, path)


def save_score_map(
    scores: Mapping[str, Sequence[float]], layers: Sequence[str], path: Path
) -> None:
    """Clients x layers as a heat map with its scale."""
    figure, axes = _axes(max(5.2, 2.5 + 0.36 * len(layers)), 2.2 + 0.3 * len(scores))
    image = axes.imshow(list(scores.values()), aspect="auto", cmap="cividis")
    axes.set_xticks(range(len(layers)), layers, rotation=90, fontsize=8)
    axes.set_yticks(range(len(scores)), list(scores), fontsize=8)
    axes.set_xlabel("shared layer")
    axes.set_title("Contribution score of each client on each layer", fontsize=10)
    figure.colorbar(image, ax=axes, label="score")
    _save(figure, path)


def _axes(width: float, height: float) -> tuple[Any, Any]:
    # Imported here: it takes a second that commands without pictures need not wait for.
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
