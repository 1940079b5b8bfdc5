"""What the paper says of its tables in words, and what the figures measured here say of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]
Finding = tuple[str, bool]
"""What was measured, in words, and whether it agrees."""


_SLACK = 1e-6
"""What rounding may do to a difference of printed figures."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper. `check` gives None as long as its figures are not measured."""

    source: str
    says: str
    check: Callable[[Measured], Finding | None]


class Measured:
    """The figures of an experiment, group by group: the means of what was measured, or the
    `printed` ones of the paper.
    """

    def __init__(self, document: Document, kind: str = "mean") -> None:
        self._groups, self._kind = document["groups"], kind
        self._forms = {column["name"]: column["form"] for column in document["columns"]}

    def of(self, row: str, column: str) -> dict[int, float]:
        """Group by number -> the figure, where there is one."""
        cells = {n: group["cells"][row][column] for n, group in enumerate(self._groups)}
        return {n: cell[self._kind] for n, cell in cells.items() if cell[self._kind] is not None}

    def both(self, row: str, other: str, column: str) -> list[tuple[float, float]]:
        """Pairs of two rows, in the groups in which both were measured."""
        one, two = self.of(row, column), self.of(other, column)
        return [(one[number], two[number]) for number in one if number in two]

    def text(self, column: str, *values: float) -> str:
        """The range of some values, in the form of their column."""
        low, high = (format(value, self._forms[column]) for value in (min(values), max(values)))
        return low if low == high else f"{low} to {high}"

    @property
    def names(self) -> list[str]:
        return [group["name"] for group in self._groups]


Check = Callable[[Measured], Finding | None]


def between(row: str, column: str, low: float, high: float) -> Check:
    """All figures of a row lie in a range."""

    def check(measured: Measured) -> Finding | None:
        values = list(measured.of(row, column).values())
        if not values:
            return None
        agrees = low - _SLACK <= min(values) and max(values) <= high + _SLACK
        return measured.text(column, *values), agrees

    return check


def above(row: str, other: str, column: str, least: float, most: float = 1e9) -> Check:
    """A row is above another by so much in every group."""

    def check(measured: Measured) -> Finding | None:
        steps = [one - two for one, two in measured.both(row, other, column)]
        if not steps:
            return None
        agrees = least - _SLACK <= min(steps) and max(steps) <= most + _SLACK
        return f"{row} minus {other}: {measured.text(column, *steps)}", agrees

    return check


def apart(row: str, other: str, column: str, most: float) -> Check:
    """Two rows are at most so far from each other in every group."""
    return above(row, other, column, -most, most)


def mean_of(row: str, column: str, low: float, high: float) -> Check:
    """The mean over all groups lies in a range."""

    def check(measured: Measured) -> Finding | None:
        values = list(measured.of(row, column).values())
        if not values:
            return None
        mean = sum(values) / len(values)
        return measured.text(column, mean), low <= mean <= high

    return check


def rising(rows: tuple[str, ...], column: str) -> Check:
    """Each row is above the one before it, in every group."""

    def check(measured: Measured) -> Finding | None:
        lists = [list(measured.of(row, column).values()) for row in rows]
        if not all(lists) or len({len(values) for values in lists}) > 1:
            return None
        words = [f"{r} {measured.text(column, *v)}" for r, v in zip(rows, lists, strict=True)]
        by_group = zip(*lists, strict=True)
        return ", ".join(words), all(list(one) == sorted(set(one)) for one in by_group)

    return check


def falling_over_groups(row: str, column: str, least: float) -> Check:
    """A row falls from the first group to the last by so much."""

    def check(measured: Measured) -> Finding | None:
        values, names = measured.of(row, column), measured.names
        if len(values) < len(names):
            return None
        first, last = values[0], values[len(names) - 1]
        places = ((first, names[0]), (last, names[-1]))
        words = [f"{measured.text(column, value)} ({name})" for value, name in places]
        return " to ".join(words), first - last >= least

    return check


def above_each(row: str, others: Sequence[str], column: str) -> Check:
    """A row is above several others in every group."""

    def check(measured: Measured) -> Finding | None:
        pairs = [measured.both(row, other, column) for other in others]
        if not all(pairs):
            return None
        steps = [one - two for lists in pairs for one, two in lists]
        return f"{row} minus the others: {measured.text(column, *steps)}", min(steps) > 0

    return check


def findings(document: Document, claims: Sequence[Claim]) -> list[dict[str, Any]]:
    """What the paper says of an experiment, beside its own figures and those measured here."""
    kinds = {"printed": Measured(document, "printed"), "measured": Measured(document)}
    return [
        {
            "source": claim.source,
            "says": claim.says,
            **{kind: _found(claim.check(figures)) for kind, figures in kinds.items()},
        }
        for claim in claims
    ]


def _found(finding: Finding | None) -> dict[str, Any] | None:
    return None if finding is None else {"figures": finding[0], "agrees": finding[1]}
