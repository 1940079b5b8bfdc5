"""Distributions of members and non-members, one model under the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pfedul.report.plots.ticks import percent_tick, plain_tick
from pfedul.report.style import SERIES


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
    """Bins that grow are even on a logarithmic axis, which is how losses spread."""
    axes.set_xlabel(signal)
    if edges[0] > 0 and edges[-1] - edges[-2] > 2 * (edges[1] - edges[0]):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(plain_tick)
        axes.minorticks_off()
