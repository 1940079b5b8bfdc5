"""What the scatter of a comparison shows: a dot for each method, each oracle, the untouched run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pfedul.compare.words import is_oracle, marked, setting, short_labels, who

Json = Mapping[str, Any]

TITLE = "Forgetting against preservation"


@dataclass(frozen=True)
class Dot:
    """One method or reference in the picture; `spread` is that over seeds, across and up."""

    label: str
    x: float
    y: float
    series: str
    spread: tuple[float, float] = (0.0, 0.0)

    @property
    def named(self) -> bool:
        """References are told by their marks: the legend says which is which."""
        return self.series in {"method", "control"}


@dataclass(frozen=True)
class Picture:
    """All that is drawn."""

    title: str
    dots: tuple[Dot, ...]
    seeds: int

    @property
    def band(self) -> tuple[float, float] | None:
        """From the first to the last oracle, of all runs."""
        oracles = [dot.x for dot in self.dots if dot.series == "oracle"]
        return (min(oracles), max(oracles)) if oracles else None


def picture_of(found: Json) -> Picture:
    """The picture of a comparison, not drawn yet."""
    seeds = max((row["seeds"] for row in found["methods"]), default=1)
    title = f"{TITLE}: {setting(found)}\n{who(found)}"
    return Picture(title, tuple(dots_of(found)), seeds)


def dots_of(found: Json) -> list[Dot]:
    """What is drawn: methods that came to a result, every oracle, the untouched run."""
    each = found.get("reference_cells", found["references"])
    untouched = [row for row in found["references"] if not is_oracle(row)]
    oracles = [row for row in each if is_oracle(row)]
    names = short_labels(row["label"] for row in found["methods"])
    rows = [
        *((row, row["label"], "untouched") for row in untouched),
        *((row, row["label"], "oracle") for row in oracles),
        *((row, names[row["label"]], _kind(row)) for row in found["methods"]),
    ]
    return [
        Dot(marked(row, name), row["mean_excess"], row["pps"], series, _spread(row))
        for row, name, series in rows
        if row["mean_excess"] is not None and row["pps"] is not None
    ]


def _kind(row: Json) -> str:
    return "control" if row["control"] else "method"


def _spread(row: Json) -> tuple[float, float]:
    found = row.get("spread", {})
    return found.get("mean_excess") or 0.0, found.get("pps") or 0.0
