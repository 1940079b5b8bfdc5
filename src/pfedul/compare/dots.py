"""What the scatter of a comparison shows: a dot for each method, each oracle, the untouched run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pfedul.compare.tables import is_oracle, marked, setting, short_labels, who
from pfedul.report.material import Json

TITLE = "Forgetting against preservation"

Point = tuple[float, float]


@dataclass(frozen=True)
class Dot:
    """One method or reference; `number` is 0 for references, whose marks the legend explains.

    `spread` is the standard deviation over seeds, across and up.
    """

    label: str
    x: float
    y: float
    series: str
    spread: Point = (0.0, 0.0)
    number: int = 0


@dataclass(frozen=True)
class Scatter:
    """All that is drawn."""

    title: str
    dots: tuple[Dot, ...]
    seeds: int

    @property
    def numbered(self) -> list[Dot]:
        return [dot for dot in self.dots if dot.number]

    @property
    def band(self) -> Point | None:
        """From the first to the last oracle of all runs."""
        oracles = [dot.x for dot in self.dots if dot.series == "oracle"]
        return (min(oracles), max(oracles)) if oracles else None


def picture_of(document: Json) -> Scatter:
    """The picture of a comparison, not drawn yet."""
    seeds = max((row["seeds"] for row in document["methods"]), default=1)
    title = f"{TITLE}: {setting(document)}\n{who(document)}"
    return Scatter(title, tuple(dots_of(document)), seeds)


def dots_of(document: Json) -> list[Dot]:
    """The untouched run, every oracle, and the methods that came to a result.

    Methods have the numbers of their rows in the tables.
    """
    oracles = document.get("reference_cells", document["references"])
    rows = [row for row in document["references"] if not is_oracle(row)]
    rows += [row for row in oracles if is_oracle(row)]
    names = short_labels(row["label"] for row in document["methods"])
    dots = [
        _dot(row, row["label"], "oracle" if is_oracle(row) else "untouched", number=0)
        for row in rows
    ]
    dots += [
        _dot(row, names[row["label"]], "control" if row["control"] else "method", number)
        for number, row in enumerate(document["methods"], start=1)
    ]
    return [dot for dot in dots if dot is not None]


def _dot(row: Json, name: str, series: str, number: int) -> Dot | None:
    if row["mean_excess"] is None or row["pps"] is None:
        return None
    spread = row.get("spread", {})
    across, up = spread.get("mean_excess") or 0.0, spread.get("pps") or 0.0
    return Dot(marked(row, name), row["mean_excess"], row["pps"], series, (across, up), number)


def crowds(points: Sequence[Point], near: Point) -> list[list[int]]:
    """Groups of points that touch, directly or through others: their indices, left to right.

    >>> crowds([(9, 0), (0, 0), (30, 0), (15, 1)], near=(8, 4))
    [[1], [0, 3], [2]]
    """
    groups: list[list[int]] = []
    for index in sorted(range(len(points)), key=lambda index: points[index]):
        touching = [group for group in groups if any(_touch(points, index, i, near) for i in group)]
        groups = [group for group in groups if group not in touching]
        members = [i for group in touching for i in group]
        groups.append([*sorted(members, key=lambda i: points[i]), index])
    return groups


def _touch(points: Sequence[Point], one: int, two: int, near: Point) -> bool:
    return all(abs(points[one][axis] - points[two][axis]) < near[axis] for axis in (0, 1))
