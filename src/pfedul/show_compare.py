"""A comparison in the terminal: one bar over all cells, then one table."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from pfedul.report.words import readable
from pfedul.show import SECONDS_BETWEEN_LINES, error_console, human_bytes, line, table

if TYPE_CHECKING:  # what a comparison needs takes a second to import
    from pfedul.compare.comparing import OnCell
    from pfedul.unlearn.removal import OnStage


@contextmanager
def progress() -> Iterator[tuple[OnStage, OnCell]]:
    """One bar for each thing that is prepared, then one over all cells: done, time left, at work.

    Where stderr is no terminal, lines now and then.
    """
    columns = TextColumn("{task.description:<16}"), BarColumn(), MofNCompleteColumn()
    plain = not error_console.is_terminal
    further = TimeRemainingColumn(), TextColumn("{task.fields[now]}", markup=False)
    with Bar(*columns, *further, console=error_console, disable=plain) as bar:
        tasks: dict[str, TaskID] = {}
        last = 0.0

        def show(what: str, done: int, of: int, now: str = "") -> None:
            nonlocal last
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=of, now="")
            bar.update(tasks[what], completed=done, total=of, now=now[:60])
            if plain and time.monotonic() - last > SECONDS_BETWEEN_LINES:
                error_console.print(f"{what} {done}/{of}  {now}", markup=False)
                last = time.monotonic()

        yield show, lambda done, of, now: show("cells", done, of, now)


def comparison(found: Mapping[str, Any], page: Path) -> None:
    """The table, what failed, and where the page is."""
    rows = [_row(row) for row in [*_references(found), *found["methods"]] if row["pps"] is not None]
    table(f"forgetting {', '.join(found['targets'])}", rows)
    for row in found["methods"]:
        if row["failure"] is not None:
            line(f"{row['label']}: {row['failure']}")
    line("excess: how far attacks come beyond what they reach on oracles (AUC), in the mean")
    line(f"Page: {page}")


def _references(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    unknown = {"rounds": None, "bytes_sent": None}
    return [{**unknown, **row, "verdicts": [row["verdict"]]} for row in found["references"]]


def _row(row: Mapping[str, Any]) -> dict[str, str]:
    verdicts = dict.fromkeys(row["verdicts"])
    return {
        "method": readable(row["label"]),
        "verdict": ", ".join(verdicts),
        "excess": f"{row['mean_excess']:+.3f}",
        "largest": f"{row['largest_excess']:+.3f}",
        "accuracy": f"{row['remaining_accuracy']:.1%}",
        "PPS": f"{row['pps']:.3f}",
        "CFI": f"{row['cfi']:.3f}",
        "CPU s": f"{row['cpu_seconds']:.1f}",
        "rounds": "" if row["rounds"] is None else f"{row['rounds']:.0f}",
        "sent": "" if row["bytes_sent"] is None else human_bytes(round(row["bytes_sent"])),
    }
