"""Which shared layers were corrected, and why these."""

from __future__ import annotations

from functools import partial
from typing import Any

from pfedul.base.text import counted, joined, number, percent, sentence, shortened, typeset
from pfedul.report.blocks import Block, Gallery, Picture, Section, Table, Text
from pfedul.report.material import Json, Material
from pfedul.report.plots.layers import Paint, ScoreBar, draw_score_map, draw_scores
from pfedul.report.style import INK, SERIES

_PAGE_PAINT = Paint(SERIES["chosen"].colour, SERIES["other"].colour, INK)


def layers_section(material: Material) -> Section:
    """Scores with the threshold, every client's scores, a table of all layers."""
    plan = material.plan
    if plan is None:
        blocks: tuple[Block, ...] = (
            Text("No plan was kept, so nothing is known about the layers."),
        )
    elif plan["threshold"] is None:
        blocks = (Text(_without_scores(plan)), _table(plan))
    else:
        notes = [Text(sentence(note), "note") for note in plan.get("notes") or ()]
        blocks = (Text(_why(material, plan)), *notes, _pictures(material, plan), _table(plan))
    return Section("layers", "Which layers were corrected, and why", blocks)


def _without_scores(plan: Json) -> str:
    moved = [layer["name"] for layer in plan["layers"] if layer["selected"]]
    return (
        f"The method {plan['correction']} does not choose among layers by scores; it changed "
        f"{len(moved)} of {counted(len(plan['layers']), 'shared layer')}."
    )


def _why(material: Material, plan: Json) -> str:
    layers = plan["layers"]
    chosen = [layer["name"] for layer in layers if layer["selected"]]
    return (
        f"{len(chosen)} of {counted(len(layers), 'shared layer')} were corrected with "
        f"{plan['correction']}: {joined(chosen, 'none')}. A layer's score is the share that "
        f"{joined(material.targets)} had in shaping it, from records that training kept. "
        f"{_rule(plan)}"
    )


def _rule(plan: Json) -> str:
    above = [layer["score"] > plan["threshold"] for layer in plan["layers"]]
    if above == [bool(layer["selected"]) for layer in plan["layers"]]:
        return (
            f"Layers above the threshold {plan['threshold']:.4f} are taken for shaped by the "
            "client and corrected; the others are left alone."
        )
    return (
        f"{sum(above)} of them are above the threshold {plan['threshold']:.4f}; the options of "
        "the removal chose others or more."
    )


def _pictures(material: Material, plan: Json) -> Gallery:
    figures = [_bars(plan), *_map(material, plan)]
    caption = "Scores of the layers: of the forgotten client, and of each client that remains."
    return Gallery(caption, tuple(figures), ("chosen", "other"))


def _bars(plan: Json) -> Picture:
    bars = [
        ScoreBar(shortened(layer["name"], 22), layer["score"], layer["selected"])
        for layer in plan["layers"]
    ]
    summary = "; ".join(
        f"{layer['name']} {number(layer['score'], 4)}{', corrected' if layer['selected'] else ''}"
        for layer in plan["layers"]
    )
    draw = partial(_draw_bars, bars=bars, threshold=plan["threshold"])
    title = "Score of each layer, with the threshold"
    return Picture(title, summary, (340, 70 + 19 * len(bars)), draw)


def _draw_bars(figure: Any, bars: list[ScoreBar], threshold: float) -> None:
    draw_scores(figure.add_subplot(), bars, threshold, _PAGE_PAINT)


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
    draw = partial(_draw_map, scores=scores, names=names)
    summary = f"{counted(len(scores), 'client')} by {counted(len(names), 'layer')}; " + "; ".join(
        f"{client} {number(min(row))} to {number(max(row))}" for client, row in scores.items()
    )
    title = "Every client's score on every layer (first row: forgotten)"
    return [Picture(title, summary, size, draw, wide=True)]


def _draw_map(figure: Any, scores: dict[str, list[float]], names: list[str]) -> None:
    # Labels are set by position: two long names may be equal once shortened.
    axes = figure.add_subplot()
    draw_score_map(axes, scores, [shortened(name) for name in names])
    places = [place + 0.5 for place in range(len(scores))]
    axes.set_yticks(places, [shortened(client) for client in scores])


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
