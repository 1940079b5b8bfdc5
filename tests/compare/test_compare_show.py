"""A comparison in the terminal: the table fits, and there is one bar."""

import io

import pytest
from rich.console import Console

from helpers.comparison_documents import cell, comparison, failed
from pfedul.terminal.compare import comparison_table, remarks
from pfedul.terminal.console import progress_bar

RESET = "pfedul:correction=reset,fraction=0.5,layers=all,repair-rounds=3"
CELLS = [
    cell(RESET, 0.1, verdict="nothing measurable to forget"),
    cell(RESET, 0.3, verdict="not enough evidence", seed=1),
    cell("knot", 0.1, own_base=True),
    failed("pga", "The method 'pga' diverged."),
    cell("fused", 0.1, asked=False),
]


def printed(found, width: int) -> tuple[str, list[str]]:
    grid, hidden = comparison_table(found, width)
    where = Console(width=width, file=io.StringIO())
    where.print(grid)
    return where.file.getvalue(), hidden


@pytest.mark.parametrize("width", [80, 100, 120, 1000])
def test_the_table_fits_and_breaks_no_word(width):
    text, _ = printed(comparison(cells=CELLS), width)
    assert max(map(len, text.splitlines())) <= width
    for word in ("(untouched)", "repair", "rounds)", "measurable", "evidence", "+0.200", "knot †"):
        assert word in text.split() or word in text
    assert "no result [1]" in text
    assert "fused" not in text


def test_a_wide_table_has_all_columns():
    text, hidden = printed(comparison(cells=CELLS), 1000)
    assert hidden == []
    for name in ("excess", "largest", "accuracy", "PPS", "CFI", "clients", "seconds", "stored"):
        assert name in text
    assert "+0.200 ±0.100" in text


def test_what_has_no_room_is_named():
    found = comparison(cells=CELLS)
    _, hidden = printed(found, 80)
    assert {"seconds", "stored", "clients"} <= set(hidden)
    said = "\n".join(remarks(found, hidden))
    assert "more columns than fit here: largest" in said
    assert "[1] pga: The method 'pga' diverged." in said
    assert "also has 1 way that earlier calls compared" in said
    assert "± is the standard deviation" in said
    assert "† branches from a run of its own" in said


def test_there_is_one_bar_and_only_what_is_at_work_is_cut():
    where = Console(width=80, file=io.StringIO(), force_terminal=True)
    now = "federaser calibrating 3/5, pfedul recalibration 2/4, budgeted-retrain training 1/9"
    with progress_bar(where) as bar:
        task = bar.add_task("oracles", total=4, now="")
        bar.reset(task, description="cells", completed=10, total=25)
        bar.update(task, now=now)
    lines = Console(width=80, file=io.StringIO())
    lines.print(bar.get_renderable())
    (line,) = lines.file.getvalue().splitlines()
    assert line.startswith("cells")
    assert "10/25 -:--:-- federaser" in line
    assert "…" in line
