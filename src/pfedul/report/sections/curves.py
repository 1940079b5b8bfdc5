"""ROC curves, distributions of losses and relearning: the tests' raw material as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pfedul.base.text import counted, percent
from pfedul.report.blocks import Block, Gallery, Picture, Table
from pfedul.report.material import Json, Material
from pfedul.report.plots import in_order, percent_tick
from pfedul.report.style import INK, SERIES, legend_of, series_of

_SQUARE = (340, 300)
_RATES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)

Ends = tuple[float, float]
"""The lowest rates above zero that the samples resolve: of false alarms, of members found."""


def roc_curves(material: Material) -> Gallery:
    """A picture for each surface and attack; logarithmic, since few false alarms matter most."""
    curves, lowest = material.evidence.get("roc") or (), _resolution(material)
    groups = _grouped(curves, ("surface", "attack"))
    figures = tuple(_roc(key, rows, lowest) for key, rows in groups)
    caption = (
        "ROC curves: for each share of false alarms that an attacker accepts, the share of members "
        "found. On the dotted line it guesses; the left end matters most, an attacker who is "
        f"seldom wrong. The axes begin where one sample is, at {percent(lowest[0])} and "
        f"{percent(lowest[1])}: nothing can be known below."
    )
    return Gallery(caption, figures, legend_of(row["model"] for row in curves), lines=True)


def _resolution(material: Material) -> Ends:
    """One sample's share of the non-members and of the members; else that of small sets."""
    samples = material.evidence.get("samples") or {}
    counts = samples.get("nonmembers") or 100, samples.get("members") or 100
    return 1 / counts[0], 1 / counts[1]


def _grouped(
    rows: Sequence[Json], keys: tuple[str, ...]
) -> list[tuple[tuple[str, ...], list[Json]]]:
    """Rows by these keys, in the order of the evidence."""
    groups: dict[tuple[str, ...], list[Json]] = {}
    for row in rows:
        groups.setdefault(tuple(str(row[name]) for name in keys), []).append(row)
    return list(groups.items())


def _roc(key: tuple[str, ...], rows: list[Json], lowest: Ends) -> Picture:
    curves, rate = {row["model"]: (row["fpr"], row["tpr"]) for row in rows}, max(0.01, lowest[0])
    summary = "; ".join(
        f"{model}: {percent(_found_at(curves[model], rate))} of members at {percent(rate)} false "
        "alarms"
        for model in in_order(curves)
    )
    draw = partial(_draw_roc, curves=curves, lowest=lowest)
    return Picture(f"ROC: {', '.join(key)}", summary, _SQUARE, draw)


def _found_at(curve: tuple[Sequence[float], Sequence[float]], rate: float) -> float:
    return max((tpr for fpr, tpr in zip(*curve, strict=True) if fpr <= rate), default=0.0)


def distributions(material: Material) -> Gallery:
    """Candidate, untouched and one oracle under each other."""
    groups = _grouped(material.evidence.get("distributions") or (), ("surface", "signal"))
    figures = tuple(_distribution(key, part) for key, part in groups)
    caption = (
        "Where members and non-members lie. The more the filled area and the outline agree, the "
        "less an attacker learns. Only the first oracle is shown."
    )
    return Gallery(caption, figures, ("members", "nonmembers"))


def _distribution(key: tuple[str, ...], rows: list[Json]) -> Picture:
    surface, signal = key
    by_model = {row["model"]: row for row in rows}
    others = [model for model in in_order(by_model) if model not in {"candidate", "untouched"}]
    chosen = [by_model[model] for model in in_order(by_model) if model not in others[1:]]
    summary = "; ".join(
        f"{row['model']}: members and non-members overlap by {percent(_overlap(row))}"
        for row in chosen
    )
    draw = partial(_draw_distributions, rows=chosen, signal=signal)
    return Picture(f"{signal} through: {surface}", summary, (340, 50 + 105 * len(chosen)), draw)


def _overlap(row: Json) -> float:
    return float(sum(map(min, row["members"], row["nonmembers"])))


def relearn_blocks(material: Material) -> list[Block]:
    """How fast each model learns the target's samples again."""
    found = material.evidence.get("relearn")
    if not found:
        return []
    goal = found["old_accuracy"] - found["tolerance"]
    curves, epochs = found["curves"], found["epochs"]
    rows = [
        {"model": model, "epochs": _epochs(epochs.get(model), curves[model])}
        for model in in_order(curves)
    ]
    summary = "; ".join(f"{row['model']} {row['epochs']}" for row in rows)
    draw = partial(_draw_relearning, curves=curves, goal=goal)
    figure = Picture("Accuracy while relearning", summary, _SQUARE, draw)
    caption = (
        "Each model is trained on the target's samples again, from the same fresh head. Dotted is "
        f"the old accuracy ({percent(goal)}, tolerance taken off): a candidate that is back there "
        "sooner than the oracles still remembers."
    )
    table = Table.of("Back at the old accuracy after", rows)
    return [Gallery(caption, (figure,), legend_of(curves), lines=True), table]


def _epochs(count: int | None, curve: Sequence[float]) -> str:
    if count is None:
        return f"not within {counted(max(len(curve) - 1, 0), 'epoch')}"
    return counted(count, "epoch")


# Drawings


def _draw_roc(
    figure: Any, curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], lowest: Ends
) -> None:
    """Model -> (false positive rates, true positive rates); the dotted line is guessing."""
    axes = figure.add_subplot()
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.plot(_RATES, _RATES, color=INK, linewidth=1, linestyle=(0, (1, 2)))
    for model in _candidate_last(curves):
        fpr, tpr = (_above_zero(rates) for rates in curves[model])
        axes.plot(fpr, tpr, drawstyle="steps-post", **_look(model))
    ends = (axes.xaxis, axes.set_xlim, lowest[0]), (axes.yaxis, axes.set_ylim, lowest[1])
    for axis, set_ends, low in ends:
        set_ends(low, 1.06)
        ticks = [low, *(rate for rate in _RATES if rate > 2.5 * low)]
        axis.set_ticks(ticks, [f"{100 * rate:.2g} %" if rate < 1 else "100 %" for rate in ticks])
        axis.set_ticks([], minor=True)
    axes.grid(linewidth=0.8)
    axes.set_xlabel("false alarms (false positive rate)")
    axes.set_ylabel("members found (true positive rate)")


def _draw_relearning(figure: Any, curves: Mapping[str, Sequence[float]], goal: float) -> None:
    """Model -> accuracy on the target's samples after 0, 1, 2 ... epochs; `goal` is dotted."""
    axes = figure.add_subplot()
    axes.axhline(goal, color=INK, linewidth=1, linestyle=(0, (1, 2)))
    for model in _candidate_last(curves):
        series = series_of(model)
        dots = {"marker": series.marker, "markersize": 5, "markerfacecolor": series.fill}
        axes.plot(range(len(curves[model])), curves[model], **dots, **_look(model))
    axes.grid(linewidth=0.8)
    axes.set_xlabel("epochs on the target's samples")
    axes.set_ylabel("accuracy on them")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.yaxis.set_major_formatter(percent_tick)


def _candidate_last(models: Mapping[str, Any]) -> list[str]:
    """The candidate is drawn on top of the others."""
    return sorted(models, key=lambda model: (model == "candidate", model))


_WIDTHS = {"candidate": 2.0, "untouched": 3.6}
"""The untouched model is drawn broad, below the candidate: on the same line both are seen."""


def _look(model: str) -> dict[str, Any]:
    series = series_of(model)
    width = _WIDTHS.get(model, 1.4)
    return {"color": series.colour, "linestyle": series.line, "linewidth": width}


def _above_zero(rates: Sequence[float]) -> list[float]:
    """A logarithmic axis has no zero: smaller rates are drawn below its lower end."""
    return [max(rate, _RATES[0] / 10) for rate in rates]


def _draw_distributions(figure: Any, rows: Sequence[Mapping[str, Any]], signal: str) -> None:
    """Each row has model, edges, members and nonmembers; members are filled."""
    panels = figure.subplots(len(rows), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    members, others = SERIES["members"], SERIES["nonmembers"]
    for axes, row in zip(panels, rows, strict=True):
        edges = row["edges"]
        axes.stairs(row["members"], edges, fill=True, color=members.colour, alpha=0.75)
        axes.stairs(row["nonmembers"], edges, color=others.colour, linewidth=1.4)
        axes.set_title(row["model"], fontsize=11, loc="left", pad=3)
        axes.yaxis.set_major_formatter(percent_tick)
        axes.locator_params(axis="y", nbins=3)
    _label_bins(panels[-1], rows[0]["edges"], signal)
    figure.supylabel("share of samples", fontsize=11)


def _label_bins(axes: Any, edges: Sequence[float], signal: str) -> None:
    """Use a logarithmic axis if the bins grow, as those of losses do."""
    axes.set_xlabel(signal)
    if edges[0] > 0 and edges[-1] - edges[-2] > 2 * (edges[1] - edges[0]):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
