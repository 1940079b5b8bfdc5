"""What the removal cost each remaining client."""

from __future__ import annotations

from statistics import fmean

from pfedul.base.text import counted, joined, number, percent, signed, span
from pfedul.report import plots
from pfedul.report.blocks import Block, Fold, Gallery, Section, Table, Text
from pfedul.report.material import Material
from pfedul.tasks.classification import CLASSIFICATION

_SILENT = (
    "No accuracies of remaining clients were kept, so nothing is known about what it cost them."
)

_RETRAINED = (
    "The paper assigns 1 to retraining by definition; measured is what the same formula gives for "
    "the oracles. A retrained model need not keep everybody's accuracy, either."
)


def clients_section(material: Material) -> Section:
    """Before and after for every client, the worst named, PPS and CFI."""
    found = material.accuracies()
    blocks: tuple[Block, ...] = (Text(_SILENT, "warning"),)
    if found:
        blocks = (Text(_summary(found)), *_meaning(material), _picture(material, found))
    details = Fold.of(
        "The figures, client by client, and PPS and CFI",
        *([_table(material, found)] if found else []),
        *_metrics(material),
    )
    return Section.of("clients", "The remaining clients", (*blocks, details))


def _meaning(material: Material) -> list[Block]:
    """What accuracy is, where it is not that of classes."""
    known = material.run.get("task", CLASSIFICATION.name)
    if known == CLASSIFICATION.name:
        return []
    return [Text(f"Accuracy is here the {material.run['figure']} (task {known}).", "note")]


def _summary(found: dict[str, tuple[float, float]]) -> str:
    worst, lost = worst_client(found), sum(after < before for before, after in found.values())
    before, after = found[worst]
    return (
        f"{counted(len(found), 'client')} remain. {lost} lost accuracy on their own test samples. "
        f"Worst off is {worst}: {percent(before)} before, {percent(after)} after "
        f"({points(after - before)})."
    )


def worst_client(found: dict[str, tuple[float, float]]) -> str:
    """Whose accuracy fell most."""
    return _by_change(found)[0]


def points(change: float) -> str:
    """A difference of two shares.

    >>> points(0.012)
    '+1.2 points'
    """
    return f"{signed(100 * change, 1)} points"


def _oracle_mean(material: Material, client: str) -> float | None:
    known = (material.clients.get(client) or {}).get("oracle")
    return fmean(known) if known else None


def _by_change(found: dict[str, tuple[float, float]]) -> list[str]:
    """The largest loss first."""
    return sorted(found, key=lambda client: (found[client][1] - found[client][0], client))


def _marks(material: Material, client: str, before: float, after: float) -> tuple[plots.Mark, ...]:
    values = {"before": before, "after": after, "oracle": _oracle_mean(material, client)}
    return plots.marks_of({name: {"value": value} for name, value in values.items()})


def _picture(material: Material, found: dict[str, tuple[float, float]]) -> Gallery:
    order = _by_change(found)
    rows = [plots.PlotRow(client, _marks(material, client, *found[client])) for client in order]
    summary = "; ".join(
        f"{client} {percent(found[client][0])} to {percent(found[client][1])}" for client in order
    )
    label = "accuracy on the client's own test samples"
    scale = plots.Scale(label, plots.wide_ends(rows), percent=True, linked=True)
    figure = plots.rows_figure("Accuracy before and after, worst first", summary, rows, scale)
    caption = (
        "Each client's personal model before and after the removal, and after retraining where "
        f"that was measured.{_one_sample(material, order)}"
    )
    return Gallery(caption, (figure,), tuple(dict.fromkeys(plots.drawn_series(rows))))


def _one_sample(material: Material, clients: list[str]) -> str:
    """How much a single test sample moves a point: a smaller change cannot be seen."""
    rows = material.run.get("clients") or ()
    counts = [row["test_samples"] for row in rows if row["client"] in clients]
    if not counts or not min(counts):
        return ""
    return f" One test sample is up to {100 / min(counts):.1f} points."


def _table(material: Material, found: dict[str, tuple[float, float]]) -> Table:
    rows = [
        {
            "client": client,
            "before": percent(found[client][0]),
            "after": percent(found[client][1]),
            "change": points(found[client][1] - found[client][0]),
            "retrained": percent(_oracle_mean(material, client)),
        }
        for client in _by_change(found)
    ]
    return Table.of("Accuracy of the remaining clients (retrained: mean of the oracles)", rows)


def _metrics(material: Material) -> list[Block]:
    """PPS and CFI next to those of retraining: 1 in the paper, not always by the formula."""
    outcome = material.outcome
    if outcome.get("pps") is None:
        return []
    oracle = (material.evidence.get("preservation") or {}).get("oracle") or {}
    rows = [
        {
            "measure": f"{key.upper()} ({meaning})",
            "this removal": number(outcome.get(key)),
            "95 % interval": span(outcome.get(f"{key}_interval")) or "no interval",
            "retrained: assigned": number(oracle.get("assigned")),
            "retrained: measured": number(oracle.get(key)),
        }
        for key, meaning in (("pps", "accuracy kept"), ("cfi", "kept by all alike"))
    ]
    kept = Table.of("What the remaining clients kept; 1 is best", rows)
    left_out = joined(outcome.get("undefined") or (), nothing="")
    note = Text(f"Left out of both, with accuracy 0 before: {left_out}.", "note")
    return [kept, Text(_RETRAINED, "note"), *([note] if left_out else [])]
