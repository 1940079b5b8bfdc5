"""ROC curves, distributions of losses and relearning: the tests' raw material as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pfedul.base.text import counted, percent
from pfedul.report.blocks import Block, Gallery, Picture, Table
from pfedul.report.material import Json, Material
from pfedul.report.plots.curves import draw_distributions, draw_relearning, draw_roc
from pfedul.report.sections.models import in_order
from pfedul.report.style import legend_of

_SQUARE = (340, 300)


def roc_curves(material: Material) -> Gallery:
    """A picture for each surface and attack; logarithmic, since few false alarms matter most."""
    curves = material.evidence.get("roc") or ()
    figures = tuple(_roc(key, rows) for key, rows in _grouped(curves, ("surface", "attack")))
    caption = (
        "ROC curves on logarithmic axes. On the dotted line the attacker guesses; the left end "
        "matters most: an attacker who is seldom wrong."
    )
    return Gallery(caption, figures, legend_of(row["model"] for row in curves), lines=True)


def _grouped(
    rows: Sequence[Json], keys: tuple[str, ...]
) -> list[tuple[tuple[str, ...], list[Json]]]:
    """Rows by these keys, in the order of the evidence."""
    groups: dict[tuple[str, ...], list[Json]] = {}
    for row in rows:
        groups.setdefault(tuple(str(row[name]) for name in keys), []).append(row)
    return list(groups.items())


def _roc(key: tuple[str, ...], rows: list[Json]) -> Picture:
    curves = {row["model"]: (row["fpr"], row["tpr"]) for row in rows}
    summary = "; ".join(
        f"{model}: {percent(_found_at(curves[model], 0.01))} of members at 1 % false alarms"
        for model in in_order(curves)
    )
    return Picture(f"ROC: {', '.join(key)}", summary, _SQUARE, partial(draw_roc, curves=curves))


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
    draw = partial(draw_distributions, rows=chosen, signal=signal)
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
    draw = partial(draw_relearning, curves=curves, goal=goal)
    figure = Picture("Accuracy while relearning", summary, _SQUARE, draw)
    caption = (
        f"Relearning the target's samples. The dotted line is the old accuracy ({percent(goal)}, "
        "tolerance taken off). A candidate that is back sooner than the oracles still remembers."
    )
    table = Table.of("Back at the old accuracy after", rows)
    return [Gallery(caption, (figure,), legend_of(curves), lines=True), table]


def _epochs(count: int | None, curve: Sequence[float]) -> str:
    if count is None:
        return f"not within {counted(max(len(curve) - 1, 0), 'epoch')}"
    return counted(count, "epoch")
