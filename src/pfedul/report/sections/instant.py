"""Evidence without oracles: before and after, surface by surface, and the share that is gone."""

from __future__ import annotations

from pfedul.base.text import number, percent, with_interval
from pfedul.report.blocks import Block, Fold, Table, Text
from pfedul.report.looks import finding_cell
from pfedul.report.material import Json, Material

HOW = (
    "Each test lets an attacker guess which samples the target trained with. Which ones it trained "
    "with was decided by lot, so on a model that never saw them the attacker is right half of the "
    "time, but for chance, and what chance does is known exactly: no retrained model is needed. "
    "The same samples are asked before and after the removal."
)
GONE = (
    "Gone is the share of the leak (AUC above 1/2) that the removal took away: 100 % is all of it, "
    "and more than that is below 1/2."
)


def is_instant(evidence: Json) -> bool:
    """Whether this is evidence of the level `instant`."""
    return evidence.get("level") == "instant"


def gone_table(tests: list[Json]) -> Table:
    """One row for each test."""
    rows = [
        {
            "surface": test["surface"],
            "attack": test["attack"],
            "finding": finding_cell(test["finding"]),
            "AUC before": with_interval(test["figures"]["untouched"]),
            "AUC after": with_interval(test["figures"]["candidate"]),
            "gone": share(test["removed"]),
            "p of a leak after": number(test["p"]["after"], 4),
            "smallest visible leak": number(test["smallest_visible"]),
        }
        for test in tests
    ]
    return Table.of("Before and after; 95 % intervals", rows, words=3)


def share(figure: Json | None) -> str:
    """A share in percent, with its interval.

    >>> share({"value": 0.97, "interval": [0.78, 1.13]}), share(None)
    ('97.0 % (78.0 % to 113.0 %)', 'unknown')
    """
    if figure is None:
        return "unknown"
    low, high = map(percent, figure["interval"])
    return f"{percent(figure['value'])} ({low} to {high})"


def own_blocks(material: Material) -> list[Block]:
    """What the removal itself measured, next to other evidence."""
    own = material.request.get("audit")
    if not own or not own["tests"] or is_instant(material.evidence):
        return []
    verdict = Text(f"{own['verdict']['verdict'].capitalize()}. {own['verdict']['sentence']}")
    return [
        Fold.of("Measured by the removal itself", verdict, Text(GONE), gone_table(own["tests"]))
    ]
