"""Further measures: distance to retraining, backdoor, single clients, those of level strict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pfedul.base.text import number, span, with_interval
from pfedul.report import plots
from pfedul.report.blocks import Block, Gallery, Table, Text
from pfedul.report.looks import finding_cell
from pfedul.report.material import Json, Material
from pfedul.report.style import legend_of

_KINDS = (("kl", "mean KL divergence", 0.0), ("agreement", "share of equal answers", 1.0))


def distance_blocks(material: Material) -> list[Block]:
    """Distance of the candidate's answers to the oracles', and between oracles."""
    rows = material.evidence.get("distance") or ()
    if not rows:
        return []
    figures = tuple(
        plots.rows_figure(
            label[0].upper() + label[1:],
            "; ".join(f"{row['samples']} {with_interval(row[kind])}" for row in rows),
            [_distance_row(row, kind) for row in rows],
            plots.Scale(f"{label} (best: {best:g})", line=best),
        )
        for kind, label, best in _KINDS
    )
    legend = ("candidate", "untouched") if any(r.get("untouched") for r in rows) else ("candidate",)
    caption = (
        "How far the answers are from those of retrained models (KL divergence: 0 is the same "
        "answer with the same sureness), and how often they agree. Shaded is how far retrained "
        "models are from each other."
    )
    return [Gallery(caption, figures, (*legend, "band")), _distance_table(rows)]


def _distance_row(row: Json, kind: str) -> plots.PlotRow:
    untouched, band = row.get("untouched") or {}, row.get("between_oracles")
    marks = plots.marks_of({"candidate": row[kind], "untouched": untouched.get(kind)})
    return plots.PlotRow(row["samples"], marks, (band[kind][0], band[kind][1]) if band else None)


def _distance_table(rows: Sequence[Json]) -> Table:
    cells = [
        {
            "samples": row["samples"],
            "measure": label,
            "candidate": with_interval(row[kind]),
            "untouched": with_interval((row.get("untouched") or {}).get(kind)),
            "oracle against oracle": span((row.get("between_oracles") or {}).get(kind))
            or "one oracle only",
        }
        for row in rows
        for kind, label, _ in _KINDS
    ]
    return Table.of("Distance of answers to those of the oracles", cells, words=2)


def backdoor_blocks(material: Material) -> list[Block]:
    """How often the planted sign still works."""
    found = material.evidence.get("backdoor")
    if not found:
        return []
    text = (
        f"A sign was planted in the target's data that asks for the answer {found['label']}. "
        f"Finding: {finding_cell(found['finding'])}."
    )
    rows = plots.model_rows(found["figures"])
    scale = plots.Scale("share of signs obeyed", percent=True)
    figure = plots.rows_figure("Backdoor success", plots.in_words(found["figures"]), rows, scale)
    caption = "How often the planted sign works; the oracles show what chance does."
    return [Text(text), Gallery(caption, (figure,), legend_of(found["figures"]))]


def single_clients(material: Material) -> Gallery:
    """The threshold attack through each remaining client's model."""
    known = {client: row["auc"] for client, row in material.clients.items() if row.get("auc")}
    rows = [plots.PlotRow(client, _auc_marks(auc)) for client, auc in known.items()]
    rows = sorted((row for row in rows if row.marks), key=lambda row: -row.marks[0].value)
    summary = "; ".join(f"{row.label} {number(row.marks[0].value)}" for row in rows)
    scale = plots.Scale("AUC of the threshold attack", line=0.5)
    figure = plots.rows_figure("Through each client's model, highest first", summary, rows, scale)
    caption = "The same attack through each remaining client's model, without intervals."
    return Gallery(caption, (figure,) if rows else (), legend_of(plots.drawn_series(rows)))


def _auc_marks(auc: Mapping[str, float | None]) -> tuple[plots.Mark, ...]:
    return plots.marks_of({name: {"value": auc.get(name)} for name in plots.in_order(auc)})


def measures_table(material: Material) -> Table:
    """Figures that are shown, not judged; level strict adds its own."""
    groups: dict[tuple[str, ...], dict[str, Json]] = {}
    for row in material.evidence.get("measures") or ():
        where = tuple(str(row.get(key) or "") for key in ("surface", "attack", "metric", "samples"))
        groups.setdefault((*where, number(row.get("best"), 2)), {})[row["model"]] = row
    names = ("surface", "attack", "measure", "samples", "best")
    rows = [
        dict(zip(names, where, strict=True)) | plots.model_cells(models)
        for where, models in groups.items()
    ]
    return Table.of("Further measures, shown and not judged", rows, words=4)
