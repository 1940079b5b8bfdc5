"""Lines: ROC curves on logarithmic axes, and accuracy over epochs of relearning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pfedul.report.plots.ticks import percent_tick
from pfedul.report.style import INK, series_of

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
    """A logarithmic axis has no zero: what is below it is drawn at its lower end."""
    return [max(rate, SMALLEST_RATE / 10) for rate in rates]
