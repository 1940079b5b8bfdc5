"""Tables and a picture of what `forgetting.py` measured: docs/results.md, results/forgetting/.

    python bench/forgetting_page.py

Needs no data: it reads the JSON files in results/forgetting/. Figures are means over the
trainings and targets that are there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from forgetting import CONTROL_ROUNDS, PERSONALIZATIONS, RESULTS, SIZES
from pfedul.compare.tables import verdict_words
from speed import write_page

PAGE = Path(__file__).parent.parent / "docs/results.md"
PICTURE = RESULTS / "frontier.png"

Row = Mapping[str, Any]
NAMED = {"default": "`exclude 1`, 2 or 3 distil", "exclude 1": "without rounds"}
SHOWN = ("remaining/threshold", "stale/threshold", "shared/threshold", "probe/threshold")


def documents() -> list[dict[str, Any]]:
    """Every training and target that was measured."""
    found = [json.loads(file.read_text()) for file in sorted(RESULTS.glob("*-*-*.json"))]
    return sorted(found, key=lambda one: PERSONALIZATIONS.index(one["personalization"]))


def groups(found: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """By personalisation, and all together."""
    names = dict.fromkeys(one["personalization"] for one in found)
    return {name: [one for one in found if one["personalization"] == name] for name in names}


def rows_of(found: Iterable[dict[str, Any]]) -> dict[str, list[Row]]:
    """Variant -> its row in each document; all oracles are one variant."""
    rows: dict[str, list[Row]] = {}
    for one in found:
        rows.setdefault("untouched", []).append(one["rows"]["untouched"])
        rows.setdefault("retrained (oracles)", []).extend(one["oracles"])
        for name, row in one["rows"].items():
            if name != "untouched" and "failure" not in row:
                rows.setdefault(name, []).append(row)
    return rows


def _mean(rows: Sequence[Row], name: str, form: str) -> str:
    return _text([row[name] for row in rows], form)


def _text(values: Iterable[float | None], form: str) -> str:
    """The mean of those that are known."""
    known = [value for value in values if value is not None]
    return format(fmean(known), form) if known else ""


def table(found: Sequence[dict[str, Any]]) -> str:
    """One line for each variant."""
    rows = rows_of(found)
    surfaces = [name for name in SHOWN if any(name in row["auc"] for row in rows["untouched"])]
    shared = any(row["shared_accuracy"] is not None for row in rows["untouched"])
    titles = ["", "verdict, four oracles", "verdict, instant", "leak removed"]
    titles += [f"AUC {name.partition('/')[0]}" for name in surfaces]
    titles += ["PPS", "CFI", *(["shared model"] if shared else []), "CPU"]
    lines = ["| " + " | ".join(titles) + " |", "|---|---|---|" + "---:|" * (len(titles) - 3)]
    for name, of in rows.items():
        cells = [_name(name), *(verdict_words([r[key] for r in of]) for key in _VERDICTS)]
        cells.append(_mean(of, "removed", ".0%"))
        cells += [_text([row["auc"].get(surface) for row in of], ".2f") for surface in surfaces]
        cells += [_mean(of, "pps", ".3f"), _mean(of, "cfi", ".3f")]
        cells += [_mean(of, "shared_accuracy", ".3f")] if shared else []
        cells.append(_mean(of, "cpu_share", ".1%"))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


_VERDICTS = ("verdict", "instant")


def _name(name: str) -> str:
    return f"**{name}** ({NAMED[name]})" if name in NAMED else name


def heading(name: str, found: Sequence[dict[str, Any]]) -> str:
    who = ", ".join(f"seed {one['seed']} {one['size']} ({one['share']:.0%})" for one in found)
    return f"### {name}: {who}"


# The picture


def save_picture(found: Sequence[dict[str, Any]], file: Path) -> None:
    """PPS against the share of the leak removed, a panel for each personalisation."""
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure

    panels = groups(found)
    figure = Figure(figsize=(4.2 * len(panels), 4.6), dpi=130, layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (name, of) in zip(axes, panels.items(), strict=True):
        _draw(axis, rows_of(of))
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
    "retrained, untouched": ["retrained (oracles)", "untouched"],
    "the default": ["default"],
}
"""What is drawn in one colour, joined by a line in order of cost where cost grows."""


def _draw(axis: Any, rows: Mapping[str, Sequence[Row]]) -> None:
    for number, (family, names) in enumerate(FAMILIES.items()):
        points = [_point(rows[name]) for name in names if name in rows]
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


# What was wanted of the default


DEFAULT, WITHOUT_ROUNDS = "default", "exclude 1"
CONTROLS = [f"old heads, {n} rounds" for n in CONTROL_ROUNDS] + ["CT", "FedMemPrune"]


def wanted(found: Sequence[dict[str, Any]]) -> str:
    """Each thing that was wanted of the default, with what was measured."""
    lines = ["| wanted of the default | measured | reached |", "|---|---|---|"]
    for want, measured, reached in _wants(found):
        lines.append(f"| {want} | {measured} | {'yes' if reached else '**no**'} |")
    return "\n".join(lines)


def _wants(found: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str, bool]]:
    leaks = [one for one in found if one["rows"]["untouched"]["verdict"] == "not forgotten"]
    for level, words in (("verdict", "four oracles"), ("instant", "instant")):
        good = sum(one["rows"][DEFAULT][level] == "forgotten" for one in leaks)
        want = f'"forgotten" in nine of ten cells in which untouched is not ({words})'
        yield want, f"{good} of {len(leaks)}", good >= 0.9 * len(leaks)
    pps, oracles = (_means(found, DEFAULT, "pps"), _of_oracles(found, "pps"))
    yield "mean PPS at least 0.975", f"{fmean(pps):.3f}", fmean(pps) >= 0.975
    apart = [own - other for own, other in zip(pps, oracles, strict=True)]
    words = f"{fmean(apart):+.3f} (cells: {min(apart):+.3f} to {max(apart):+.3f})"
    yield "mean PPS at most 0.02 below the oracles'", words, fmean(apart) >= -0.02
    cfi = fmean(_means(found, DEFAULT, "cfi")), fmean(_of_oracles(found, "cfi"))
    yield "mean CFI not below the oracles'", f"{cfi[0]:.3f}, theirs {cfi[1]:.3f}", cfi[0] >= cfi[1]
    for name, most, words in ((DEFAULT, 15, "cost"), (WITHOUT_ROUNDS, 75, "cost without rounds")):
        share = fmean(_means(found, name, "cpu_share"))
        text = f"1/{1 / share:.0f} ({share:.1%})"
        yield f"{words}: at most 1/{most} of retraining's CPU time", text, share * most <= 1
    yield _against_controls(found)


def _means(found: Sequence[dict[str, Any]], variant: str, figure: str) -> list[float]:
    return [one["rows"][variant][figure] for one in found]


def _of_oracles(found: Sequence[dict[str, Any]], figure: str) -> list[float]:
    return [fmean(oracle[figure] for oracle in one["oracles"]) for one in found]


def _against_controls(found: Sequence[dict[str, Any]]) -> tuple[str, str, bool]:
    """A control counts if it removes at least nine tenths of the leak; dearer ones are shown."""
    own, cost = (fmean(_means(found, DEFAULT, figure)) for figure in ("pps", "cpu_share"))
    rivals = {}
    for name in CONTROLS:
        removed, pps, share = (
            fmean(_means(found, name, figure)) for figure in ("removed", "pps", "cpu_share")
        )
        if removed >= 0.9:
            rivals[name] = (pps, share / cost)
    words = ", ".join(f"{n} {pps:.3f} at {times:.1f} times" for n, (pps, times) in rivals.items())
    ahead = all(own > pps for pps, times in rivals.values() if times <= _SAME_COST)
    return "more PPS than every control that forgets, at its cost", f"{own:.3f}; {words}", ahead


_SAME_COST = 1.25


def page_part() -> str:
    """The measured part of the page."""
    found = documents()
    parts = [f"{heading(name, of)}\n\n{table(of)}\n" for name, of in groups(found).items()]
    count = f"{len(found)} of {3 * len(PERSONALIZATIONS) * len(SIZES)} cells are measured."
    parts.insert(0, f"{count}\n\n{wanted(found)}\n\n### All cells\n\n{table(found)}\n")
    return "\n".join(parts)


def main() -> None:
    """Write the page and the picture."""
    write_page(PAGE, "forgetting", page_part())
    save_picture(documents(), PICTURE)


if __name__ == "__main__":
    main()
