"""Curves: ROC, accuracy while relearning, distributions of members and non-members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pfedul.base.text import typeset
from pfedul.report.style import INK, SERIES, series_of

SMALLEST_RATE = 1e-3
_RATES = (1e-3, 1e-2, 1e-1, 1.0)


def draw_roc(figure: Any, curves: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> None:
    """Model -> (false positive rates, true positive rates); the dotted line is guessing."""
    axes = figure.add_subplot()
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.plot(_RATES, _RATES, color=INK, linewidth=1, linestyle=(0, (1, 2)))
    for model in _candidate_last(curves):
        fpr, tpr = (_above_zero(rates) for rates in curves[model])
        _draw_line(axes, model, fpr, tpr, steps=True)
    for axis, set_ends in ((axes.xaxis, axes.set_xlim), (axes.yaxis, axes.set_ylim)):
        set_ends(SMALLEST_RATE, 1.06)
        axis.set_ticks(_RATES, ["0.1 %", "1 %", "10 %", "100 %"])
        axis.set_ticks([], minor=True)
    axes.grid(linewidth=0.8)
    axes.set_xlabel("false alarms (false positive rate)")
    axes.set_ylabel("members found (true positive rate)")


def draw_relearning(figure: Any, curves: Mapping[str, Sequence[float]], goal: float) -> None:
    """Model -> accuracy on the target's samples after 0, 1, 2 ... epochs; `goal` is dotted."""
    axes = figure.add_subplot()
    axes.axhline(goal, color=INK, linewidth=1, linestyle=(0, (1, 2)))
    for model in _candidate_last(curves):
        _draw_line(axes, model, range(len(curves[model])), curves[model], marker=True)
    axes.grid(linewidth=0.8)
    axes.set_xlabel("epochs on the target's samples")
    axes.set_ylabel("accuracy on them")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.yaxis.set_major_formatter(percent_tick)


def _candidate_last(models: Mapping[str, Any]) -> list[str]:
    """The candidate is drawn on top of the others."""
    return sorted(models, key=lambda model: (model == "candidate", model))


def _draw_line(
    axes: Any,
    model: str,
    x: Sequence[float],
    y: Sequence[float],
    steps: bool = False,
    marker: bool = False,
) -> None:
    series = series_of(model)
    axes.plot(
        x,
        y,
        color=series.colour,
        linestyle=series.line,
        linewidth=2.2 if model == "candidate" else 1.4,
        marker=series.marker if marker else None,
        markersize=5,
        markerfacecolor=series.fill,
        drawstyle="steps-post" if steps else "default",
    )


def _above_zero(rates: Sequence[float]) -> list[float]:
    """A logarithmic axis has no zero: smaller rates are drawn below its lower end."""
    return [max(rate, SMALLEST_RATE / 10) for rate in rates]


def draw_distributions(figure: Any, rows: Sequence[Mapping[str, Any]], signal: str) -> None:
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
        axes.xaxis.set_major_formatter(plain_tick)
        axes.minorticks_off()


def percent_tick(value: float, _place: int | None = None) -> str:
    """A share in per cent, with as many digits as the tick needs.

    >>> percent_tick(0.875), percent_tick(0.9)
    ('87.5 %', '90 %')
    """
    return typeset(f"{round(100 * value, 6):g} %")


def plain_tick(value: float, _place: int | None = None) -> str:
    """A number as people write it.

    >>> plain_tick(0.01), plain_tick(10.0)
    ('0.01', '10')
    """
    return typeset(f"{value:g}")
