"""A comparison in the terminal: one bar over all of it, then one table that fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pfedul.base.text import counted
from pfedul.compare import tables
from pfedul.compare.labels import short_labels
from pfedul.compare.tables import NO_RESULT, SHARED
from pfedul.report.material import Json
from pfedul.terminal.console import console, line


def print_comparison(document: Json, page: Path) -> None:
    """The table, what failed, and where the page is."""
    where = console if console.is_terminal else Console(highlight=False, width=_WIDE)
    grid, hidden = comparison_table(document, where.width)
    where.print(grid)
    for text in remarks(document, hidden):
        line(text)
    line(f"Page: {page}")


_WIDE = 1000
"""Width of files and pipes: room for every column."""


def remarks(document: Json, hidden: Sequence[str]) -> list[str]:
    """Lines under the table."""
    rows = [row for row in document["methods"] if row["asked"]]
    failed = [row for row in rows if row["failure"] is not None]
    lines = [
        f"[{number}] {row['label']}: {row['failure']}" for number, row in enumerate(failed, start=1)
    ]
    lines.append("excess: mean AUC of the attacks above what they reach on oracles")
    if "clients" not in hidden:
        lines.append("clients: accuracy after / before of the client that kept least, and most")
    lines += tables.notes_on(rows)
    if hidden:
        lines.append(f"The page has more columns than fit here: {', '.join(hidden)}.")
    further = len(document["methods"]) - len(rows)
    if further:
        lines.append(f"The page also has {counted(further, 'way')} that earlier calls compared.")
    return lines


def comparison_table(document: Json, width: int) -> tuple[Table, list[str]]:
    """The table at this width, and the names of the columns that do not fit.

    References first, then the methods that were asked for.
    """
    rows = _rows(document)
    columns = list(rows[0])
    limits = {} if _width(rows, columns, {}) <= width else _WRAPPED
    names = list(columns)
    for name in _FIRST_TO_GO:
        if _width(rows, names, limits) > width:
            names.remove(name)
    grid = Table(
        title=f"forgetting {' and '.join(document['targets'])}",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
    )
    for name in names:
        if name in _WRAPPED:
            grid.add_column(name, max_width=limits.get(name))
        else:
            grid.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        grid.add_row(*(Text(row[name]) for name in names))
    return grid, [name for name in columns if name not in names]


_WRAPPED = {"method": 24, "verdict": 19}
"""Columns of text that may wrap, and their width in a narrow terminal."""


def _width(
    rows: Sequence[Mapping[str, str]], names: Sequence[str], limits: Mapping[str, int]
) -> int:
    widest = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    return sum(min(widest[name], limits.get(name, widest[name])) + 2 for name in names) + 1


def _rows(document: Json) -> list[dict[str, str]]:
    """Rows as text; a failed one refers to the line below that says why."""
    methods = [row for row in document["methods"] if row["asked"]]
    names = short_labels(row["label"] for row in methods)
    failed = [row["label"] for row in methods if row["failure"] is not None]
    shared = tables.has_shared_accuracy([*document["references"], *document["methods"]])
    shown = [(row, f"({row['label']})", "") for row in document["references"]]
    for row in methods:
        note = f" [{failed.index(row['label']) + 1}]" if row["failure"] is not None else ""
        shown.append((row, tables.marked(row, names[row["label"]]), note))
    return [_texts(row, name, note, shared) for row, name, note in shown]


def _texts(row: Json, name: str, note: str, shared: bool) -> dict[str, str]:
    verdict = tables.verdict_words(tables.verdicts_of(row)) if tables.has_result(row) else NO_RESULT
    texts = {"method": name, "verdict": f"{verdict}{note}", **tables.cells(row)}
    return {column: text for column, text in texts.items() if shared or column != SHARED}


_FIRST_TO_GO = (
    *("CFI from, to", "quartiles", "PPS from, to", "largest", "seconds", "clients", "stored"),
    *("sent", "CPU s", "CFI", "rounds", "accuracy", "faster", "MIA"),
)
"""Columns left out in a narrow terminal, the least important first."""
