"""What an experiment is: data. Which federations, which methods, which figures, what was printed.

A table of the paper has a `Group` of columns for each federation, a `Row` for each method, and in
each group the same `Column`s. A cell of it is the mean over trainings with several seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pfedul.base.registry import NoOptions
from pfedul.errors import PfedulError
from pfedul.experiments.claims import Claim
from pfedul.experiments.columns import COLUMNS, Column

UNTOUCHED = "untouched"
RETRAINED = "retrained"
"""Rows that are no method: the run before the removal, and the oracles."""

Place = tuple[str, str, str, str]
"""Part, group, row and column of a figure."""


@dataclass(frozen=True)
class Row:
    """A line of the table: its name there, and the method as `pfedul compare` takes it.

    `note` is what a reader must know of it.
    """

    name: str
    method: str
    note: str = ""

    @property
    def is_reference(self) -> bool:
        return self.method in {UNTOUCHED, RETRAINED}


@dataclass(frozen=True)
class Group:
    """A federation, and who leaves it.

    `part` is the table that the group is a part of. `changes` are settings that differ from the
    scale's. `leaving` clients go, all at once or `in_turn`; they are drawn by the seed of the
    training, unless `first`: the first client, to which some partitions give a special part.
    """

    part: str
    name: str
    data: str
    personalization: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    leaving: int = 1
    in_turn: bool = False
    first: bool = False


@dataclass(frozen=True)
class Picture:
    """How an experiment is drawn.

    "bars": a bar for each row. "lines": over an axis with the places `x`, which are those of the
    groups, or, with `series`, those of the rows of each line. "frontier": a mark for each row.
    """

    kind: Literal["bars", "lines", "frontier"]
    axis: str = ""
    x: Sequence[float] = ()
    series: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """An entry of the registry.

    `printed` holds the paper's figures, `claims` what it says of them. `direct` gives all figures
    of an experiment that trains nothing, from the settings of each group.
    """

    name: str
    summary: str
    source: str
    groups: Sequence[Group]
    rows: Sequence[Row]
    columns: Sequence[str]
    printed: Mapping[Place, float] = field(default_factory=dict)
    picture: Picture | None = None
    notes: Sequence[str] = ()
    claims: Sequence[Claim] = ()
    direct: Callable[[Group, Row, Mapping[str, Any]], Mapping[str, float]] | None = None
    options: type[NoOptions] = NoOptions

    @property
    def shown(self) -> list[Column]:
        return [COLUMNS[name] for name in self.columns]

    @property
    def methods(self) -> list[str]:
        """The methods of all rows, each once."""
        return list(dict.fromkeys(row.method for row in self.rows if not row.is_reference))


def printed(
    part: str, groups: Sequence[str], columns: Sequence[str], table: str
) -> dict[Place, float]:
    """The figures of a printed table: a line for each row, `name | figures`, group by group.

    >>> printed("CIFAR-10", ["FedPer", "FedRep"], ["mia"], "Retrain | 50.1 50.2")
    {('CIFAR-10', 'FedPer', 'Retrain', 'mia'): 50.1, ('CIFAR-10', 'FedRep', 'Retrain', 'mia'): 50.2}
    """
    places = [(group, column) for group in groups for column in columns]
    figures: dict[Place, float] = {}
    for line in filter(None, map(str.strip, table.splitlines())):
        name, _, numbers = line.partition("|")
        values = numbers.split()
        if len(values) != len(places):
            raise PfedulError(f"The printed row '{name.strip()}' has {len(values)} figures.")
        for (group, column), value in zip(places, values, strict=True):
            if value != "-":
                figures[part, group, name.strip(), column] = float(value)
    return figures
