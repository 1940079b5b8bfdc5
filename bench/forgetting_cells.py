"""What `forgetting.py` measured, read from results/forgetting/: cells, and rows of variants.

A cell is one training and one target. Older cells may lack variants that were added later.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from forgetting import PERSONALIZATIONS, RESULTS

Row = Mapping[str, Any]
Cells = Sequence[Mapping[str, Any]]

UNTOUCHED, ORACLES, DEFAULT = "untouched", "retrained (oracles)", "default"


def read_cells() -> list[dict[str, Any]]:
    """Every cell that was measured."""
    cells = [json.loads(file.read_text()) for file in sorted(RESULTS.glob("*-*-*.json"))]
    return sorted(cells, key=lambda cell: PERSONALIZATIONS.index(cell["personalization"]))


def groups(cells: Cells) -> dict[str, Cells]:
    """By personalisation."""
    names = dict.fromkeys(cell["personalization"] for cell in cells)
    return {name: [cell for cell in cells if cell["personalization"] == name] for name in names}


def rows(cell: Mapping[str, Any], variant: str) -> list[Row]:
    """The rows of a variant in a cell: one for each oracle, none if it is missing or failed."""
    if variant == ORACLES:
        return list(cell["oracles"])
    row = cell["rows"].get(variant)
    return [] if row is None or "failure" in row else [row]


def having(cells: Cells, variant: str) -> Cells:
    """The cells in which a variant was measured."""
    return [cell for cell in cells if rows(cell, variant)]


def variants(cells: Cells) -> list[str]:
    """All variants of these cells, references first."""
    measured = dict.fromkeys(name for cell in cells for name in cell["rows"])
    names = [UNTOUCHED, ORACLES, *(name for name in measured if name != UNTOUCHED)]
    return [name for name in names if having(cells, name)]


def figures(cells: Cells, variant: str, figure: str) -> list[float]:
    """One figure for each cell; of the oracles their mean."""
    return [fmean(row[figure] for row in rows(cell, variant)) for cell in having(cells, variant)]


def mean(cells: Cells, variant: str, figure: str) -> float:
    return fmean(figures(cells, variant, figure))


def mean_text(values: Iterable[float | None], form: str) -> str:
    """The mean of those that are known."""
    known = [value for value in values if value is not None]
    return format(fmean(known), form) if known else ""


def named(variant: str, cells: Cells) -> str:
    """A variant with the number of cells that its figures rest on, if that is not all."""
    count = len(having(cells, variant))
    return variant if count == len(cells) else f"{variant} ({count} of {len(cells)} cells)"


def markdown(lines: Sequence[Sequence[str]], words: int = 1) -> str:
    """A table; the first line has the titles, and so many columns are words."""
    bars = "|" + "---|" * words + "---:|" * (len(lines[0]) - words)
    title, *rest = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([title, bars, *rest])
