"""Tables and a picture of what `forgetting.py` measured: docs/results.md, results/forgetting/.

    python bench/forgetting_page.py

Needs no data: it reads the JSON files in results/forgetting/. Figures are means over the
trainings and targets that are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from forgetting import AFFINE, CONTROL_ROUNDS, PERSONALIZATIONS, RESULTS, SETTINGS, SIZES
from forgetting_cells import (
    DEFAULT,
    ORACLES,
    UNTOUCHED,
    Cells,
    Row,
    groups,
    having,
    markdown,
    mean_text,
    named,
    read_cells,
    rows,
    variants,
)
from forgetting_wants import controls, remarks, wanted
from pfedul.compare.tables import verdict_words
from speed import write_page

PAGE = Path(__file__).parent.parent / "docs/results.md"
PICTURE = RESULTS / "frontier.png"

NAMED = {DEFAULT: "`exclude 1`, 2 to 6 distil", "exclude 1": "without rounds"}
SURFACES = ("remaining", "stale", "shared", "probe")
VERDICTS = {"verdict": "verdict, four oracles", "instant": "verdict, instant"}


def table(cells: Cells) -> str:
    """One line for each variant."""
    known = _all(cells, UNTOUCHED)
    surfaces = [name for name in SURFACES if any(_auc(row, name) is not None for row in known)]
    shared = any(row["shared_accuracy"] is not None for row in known)
    titles = ["", *VERDICTS.values(), "leak removed", *(f"AUC {name}" for name in surfaces)]
    titles += ["PPS", "CFI", *(["shared model"] if shared else []), "epochs", "CPU"]
    lines = [_line(name, cells, surfaces, shared) for name in variants(cells)]
    return markdown([titles, *lines], words=3)


def _line(name: str, cells: Cells, surfaces: Sequence[str], shared: bool) -> list[str]:
    of = _all(cells, name)

    def shown(figure: str, form: str) -> str:
        return mean_text([row[figure] for row in of], form)

    return [
        *(_name(name, cells), *(verdict_words([row[key] for row in of]) for key in VERDICTS)),
        shown("removed", ".0%"),
        *(mean_text([_auc(row, surface) for row in of], ".2f") for surface in surfaces),
        *(shown("pps", ".3f"), shown("cfi", ".3f")),
        *([shown("shared_accuracy", ".3f")] if shared else []),
        *(mean_text([_epochs(name, row) for row in of], ".3g"), shown("cpu_share", ".1%")),
    ]


def _all(cells: Cells, name: str) -> list[Row]:
    return [row for cell in cells for row in rows(cell, name)]


def _auc(row: Row, surface: str) -> float | None:
    """Of the loss attack."""
    auc: float | None = row["auc"].get(f"{surface}/threshold")
    return auc


def _epochs(name: str, row: Row) -> float | None:
    """Epochs of the shared part: a round of training has several, one of any variant has one."""
    if row["rounds"] is None:
        return None
    return float(row["rounds"] * (SETTINGS["local_epochs"] if name == ORACLES else 1))


def _name(name: str, cells: Cells) -> str:
    words = named(name, cells)
    return f"**{words}** ({NAMED[name]})" if name in NAMED else words


def heading(name: str, cells: Cells) -> str:
    who = ", ".join(f"seed {one['seed']} {one['size']} ({one['share']:.0%})" for one in cells)
    return f"### {name}: {who}"


# The picture


def save_picture(cells: Cells, file: Path) -> None:
    """PPS against the share of the leak removed, a panel for each personalisation."""
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure

    panels = groups(cells)
    figure = Figure(figsize=(4.2 * len(panels), 4.6), dpi=130, layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (name, group) in zip(axes, panels.items(), strict=True):
        _draw(axis, group)
        axis.set_title(name, fontsize=12)
    axes[0].set_ylabel("PPS: accuracy kept by the remaining clients")
    handles, labels = axes[0].get_legend_handles_labels()
    columns = 4 if len(panels) > 2 else 2
    legend = figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False
    )
    for handle in legend.legend_handles:
        if isinstance(handle, PathCollection):
            handle.set_sizes([60])
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, facecolor="white")


FAMILIES = {
    "exclude 1, distil": [f"exclude 1, {n} distil" for n in (1, 2, 4)],
    "exclude 1, ordinary": ["exclude 1", *(f"exclude 1, {n} ordinary" for n in (1, 2, 4))],
    "from scratch, old heads": [f"old heads, {n} rounds" for n in CONTROL_ROUNDS],
    "the paper's rule": ["paper", "paper, saturated"],
    "other methods": ["reset 0.5", "CT", "FedMemPrune", "recalibration alone"],
    "retrained, untouched": [ORACLES, UNTOUCHED],
    "the default": [DEFAULT, *AFFINE],
}
"""What is drawn in one colour, joined by a line in order of cost where cost grows."""


def _draw(axis: Any, cells: Cells) -> None:
    for number, (family, names) in enumerate(FAMILIES.items()):
        points = [_point(_all(cells, name)) for name in names if having(cells, name)]
        if not points:
            continue
        x, y, size = zip(*points, strict=True)
        colour = _COLOURS[number]
        if number < 3:
            axis.plot(x, y, color=colour, linewidth=1, alpha=0.6)
        axis.scatter(
            x,
            y,
            s=size,
            color=colour,
            label=family,
            alpha=0.85,
            marker=_MARKS[number],
            zorder=2 + number,
        )
    axis.axvline(1, color="#cccccc", zorder=0)
    axis.axhline(1, color="#cccccc", zorder=0)
    axis.set_xlabel("share of the leak removed")
    axis.xaxis.set_major_formatter(lambda value, _place: f"{value:.0%}")


_COLOURS = ("#0072b2", "#56b4e9", "#d55e00", "#e69f00", "#8a8a8a", "#000000", "#009e73")
_MARKS = ("o", "o", "s", "v", "D", "*", "P")


def _point(rows: Sequence[Row]) -> tuple[float, float, float]:
    """Share removed, PPS, and an area that grows with the cost."""
    removed, pps, cost = (
        fmean(row[name] or 0.0 for row in rows) for name in ("removed", "pps", "cpu_share")
    )
    return removed, pps, 25 + 900 * min(cost, 0.25)


def page_part() -> str:
    """The measured part of the page."""
    cells = read_cells()
    count = f"{len(cells)} of {3 * len(PERSONALIZATIONS) * len(SIZES)} cells are measured."
    parts = [
        *(count, wanted(cells), remarks(cells)),
        *("### Controls", controls(cells)),
        *("### All cells", table(cells)),
    ]
    for name, group in groups(cells).items():
        parts += [heading(name, group), table(group)]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Write the page and the picture."""
    write_page(PAGE, "forgetting", page_part())
    save_picture(read_cells(), PICTURE)


if __name__ == "__main__":
    main()
