"""Which shared layers were corrected, and why these; drawings of scores for pages and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pfedul.base.text import counted, joined, number, percent, sentence, shortened, typeset
from pfedul.errors import PfedulError
from pfedul.report.blocks import Block, Fold, Gallery, Picture, Section, Table, Text
from pfedul.report.material import Json, Material
from pfedul.report.style import INK, SERIES
from pfedul.unlearn.pfedul.result import Plan

Paint = tuple[str, str, str]
"""The colours of chosen layers, of others, and of the threshold."""

_ON_PAGE: Paint = (SERIES["chosen"].colour, SERIES["other"].colour, INK)
_IN_FILES: Paint = ("#d55e00", "#0072b2", "black")

_SHADES = 32
"""Steps of the colour scale: below 50 it is drawn as vectors, not as an image."""


def layers_section(material: Material) -> Section:
    """Scores with the threshold, every client's scores, a table of all layers."""
    plan = material.plan
    if plan is None:
        blocks: tuple[Block, ...] = (
            Text("No plan was kept, so nothing is known about the layers."),
        )
    elif plan["threshold"] is None:
        blocks = (Text(_without_scores(plan)), Fold.of(_FOLD, _table(plan)))
    else:
        known = material.outcome.get("notes") or ()
        own = [note for note in plan.get("notes") or () if note not in known]
        notes = [Text(sentence(note), "note") for note in own]
        details = Fold.of(_FOLD, _pictures(material, plan), _table(plan))
        blocks = (Text(_why(material, plan)), *notes, details)
    return Section("layers", "Which layers were corrected, and why", blocks)


_FOLD = "Every layer, with its score and how far it was changed"


def _chosen(plan: Json) -> list[str]:
    return [layer["name"] for layer in plan["layers"] if layer["selected"]]


def _without_scores(plan: Json) -> str:
    return (
        f"The method {plan['correction']} does not choose among layers by scores; it changed "
        f"{len(_chosen(plan))} of {counted(len(plan['layers']), 'shared layer')}."
    )


def _why(material: Material, plan: Json) -> str:
    chosen = _chosen(plan)
    return (
        f"{len(chosen)} of {counted(len(plan['layers']), 'shared layer')} were corrected with "
        f"{plan['correction']}: {joined(chosen, 'none')}. A layer's score is the share that "
        f"{joined(material.targets)} had in shaping it, from records that training kept. "
        f"{_rule(plan)}"
    )


def _rule(plan: Json) -> str:
    above = [layer["name"] for layer in plan["layers"] if layer["score"] > plan["threshold"]]
    if above == _chosen(plan):
        return (
            f"Layers above the threshold {plan['threshold']:.4f} are taken for shaped by the "
            "client and corrected; the others are left alone."
        )
    return (
        f"{len(above)} of them are above the threshold {plan['threshold']:.4f}; the options of "
        "the removal chose others or more."
    )


def _pictures(material: Material, plan: Json) -> Gallery:
    figures = (_bars(plan), *_map(material, plan))
    caption = "Scores of the layers: of the forgotten client, and of each client that remains."
    return Gallery(caption, figures, ("chosen", "other"))


def _bars(plan: Json) -> Picture:
    layers = [{**layer, "name": shortened(layer["name"], 22)} for layer in plan["layers"]]
    summary = "; ".join(
        f"{layer['name']} {number(layer['score'], 4)}{', corrected' if layer['selected'] else ''}"
        for layer in plan["layers"]
    )
    draw = partial(_draw_scores, layers=layers, threshold=plan["threshold"], paint=_ON_PAGE)
    title = "Score of each layer, with the threshold"
    return Picture(title, summary, (340, 70 + 19 * len(layers)), draw)


def _map(material: Material, plan: Json) -> list[Picture]:
    names = [layer["name"] for layer in plan["layers"]]
    own = {joined(material.targets): [layer["score"] for layer in plan["layers"]]}
    others = {
        client: row["scores"]
        for client, row in material.clients.items()
        if len(row.get("scores") or ()) == len(names)
    }
    if not others or not names:
        return []
    scores = {**own, **others}
    size = max(340.0, 200 + 18.0 * len(names)), 136 + 16.0 * len(scores)
    labels = list(map(shortened, scores)), list(map(shortened, names))
    draw = partial(_draw_map, scores=list(scores.values()), labels=labels)
    summary = f"{counted(len(scores), 'client')} by {counted(len(names), 'layer')}; " + "; ".join(
        f"{client} {number(min(row))} to {number(max(row))}" for client, row in scores.items()
    )
    title = "Every client's score on every layer (first row: forgotten)"
    return [Picture(title, summary, size, draw, wide=True)]


def _table(plan: Json) -> Table:
    return Table.of("The layers of the plan", [_row(layer) for layer in plan["layers"]], words=2)


def _row(layer: Json) -> dict[str, str]:
    chosen = layer["selected"]
    change = layer.get("relative_change")
    moved = "was all zero" if change is None else typeset(f"{change:.1e}")
    return {
        "layer": layer["name"],
        "corrected": "yes" if chosen else "no",
        "parameters": f"{layer['parameters']:,}",
        "score": number(layer["score"], 4),
        "relative change": moved if chosen else "",
        "share at the bound": percent(layer.get("at_bound")) if chosen else "",
    }


# Drawings


def save_plan(plan: Plan, path: Path) -> None:
    """Bars of the scores, the threshold as a line, chosen layers in orange."""
    figure = _canvas(6.4, 1.2 + 0.26 * max(len(plan.layers), 1))
    _draw_scores(figure, plan.as_json()["layers"], plan.threshold, _IN_FILES)
    title = f"Layers shaped by {', '.join(plan.targets)} (filled orange: corrected)"
    _save(figure, title, path)


def save_score_map(
    scores: Mapping[str, Sequence[float]], layers: Sequence[str], path: Path
) -> None:
    """Clients x layers as a heat map with its scale."""
    figure = _canvas(max(5.2, 2.5 + 0.36 * len(layers)), 2.2 + 0.3 * len(scores))
    _draw_map(figure, list(scores.values()), (list(scores), layers))
    _save(figure, "Contribution score of each client on each layer", path)


def _draw_scores(figure: Any, layers: Sequence[Json], threshold: float, paint: Paint) -> None:
    """Bars from top to bottom: filled where the layer is chosen, hollow where it is not."""
    axes, places = figure.add_subplot(), range(len(layers))
    chosen, other, line = paint
    edges = [chosen if layer["selected"] else other for layer in layers]
    fills = [chosen if layer["selected"] else "none" for layer in layers]
    scores = [layer["score"] for layer in layers]
    axes.barh(places, scores, height=0.66, color=fills, edgecolor=edges, linewidth=1.2)
    axes.axvline(threshold, color=line, linestyle="--", linewidth=1)
    axes.set_yticks(places, [layer["name"] for layer in layers], parse_math=False)
    axes.set_ylim(len(layers) - 0.4, -0.6)
    axes.locator_params(axis="x", nbins=5)
    axes.set_xlabel(f"contribution score (dashed: threshold {threshold:.4f})")


def _draw_map(
    figure: Any, scores: Sequence[Sequence[float]], labels: tuple[Sequence[str], Sequence[str]]
) -> None:
    """A heat map with its scale; `labels` are the clients, down, and the layers, across."""
    from matplotlib import colormaps

    axes, (clients, layers) = figure.add_subplot(), labels
    fields = axes.pcolormesh(scores, cmap=colormaps["cividis"].resampled(_SHADES))
    across, down = ([place + 0.5 for place in range(len(names))] for names in (layers, clients))
    axes.set_xticks(across, layers, rotation=90, parse_math=False)
    axes.set_yticks(down, clients, parse_math=False)
    axes.tick_params(labelsize=10, length=0)
    axes.invert_yaxis()
    axes.set_xlabel("shared layer")
    shape = max(14, len(clients))  # of the scale: no wider for many clients
    scale = figure.colorbar(fields, ax=axes, label="contribution score", pad=0.02, aspect=shape)
    scale.solids.set_edgecolor("face")  # no gaps between the shades


def _canvas(width: float, height: float) -> Any:
    # Imported here: this takes a second that commands without pictures do not need.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", dpi=150)


def _save(figure: Any, title: str, path: Path) -> None:
    figure.axes[0].set_title(title, fontsize=10, parse_math=False)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise PfedulError(f"The picture cannot be saved as {path}: {error}.") from None
