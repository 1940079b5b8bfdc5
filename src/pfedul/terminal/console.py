"""Printing: results go to stdout, progress to stderr."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table
from rich.text import Text

from pfedul.base.text import visible

WIDTH_OF_FILES = 120
SECONDS_BETWEEN_LINES = 2.0


class VisibleConsole(Console):
    """Shows control characters as escapes: what is printed may come from somebody else's run."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*map(_visible, objects), **options)


def _visible(item: Any) -> Any:
    if isinstance(item, Text):
        return item if visible(item.plain) == item.plain else Text(visible(item.plain))
    return visible(item) if isinstance(item, str) else item


console = VisibleConsole(highlight=False, width=None if sys.stdout.isatty() else WIDTH_OF_FILES)
error_console = VisibleConsole(stderr=True, highlight=False)


def replace_unprintable() -> None:
    """Print a mark for a character that the terminal's encoding lacks, instead of failing.

    It changes the streams of the process, so only the command line calls it.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def line(text: str) -> None:
    """Print a line of results; the terminal wraps it."""
    console.print(text, soft_wrap=True, markup=False)


def table(title: str, rows: list[dict[str, str]]) -> None:
    """Print rows of text under a title."""
    grid = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE)
    for column in rows[0]:
        grid.add_column(column, overflow="fold", no_wrap=column in {"layer", "client", "name"})
    for row in rows:
        grid.add_row(*(Text(visible(cell)) for cell in row.values()))
    console.print(grid)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show a spinner on stderr if that is a terminal."""
    with error_console.status(f"{what} …"):
        yield


class ProgressLog:
    """Progress as lines in a log file, at most one every two seconds; silent where bars are."""

    def __init__(self) -> None:
        self.active = not (error_console.is_terminal or _in_notebook())
        self._last = time.monotonic()

    def __call__(self, text: str, *, always: bool = False) -> None:
        now = time.monotonic()
        if self.active and (always or now - self._last >= SECONDS_BETWEEN_LINES):
            error_console.print(text, markup=False)
            self._last = now


def _in_notebook() -> bool:
    """Whether this is a notebook that can show bars."""
    return error_console.is_jupyter and find_spec("ipywidgets") is not None


_A_DAY = 24 * 3600.0


def progress_bar(where: Console = error_console, disable: bool = False) -> Progress:
    """Progress bars that count what is done."""
    return _bars(MofNCompleteColumn(table_column=Column(no_wrap=True)), where, disable)


def share_bar(disable: bool = False) -> Progress:
    """A progress bar of work whose parts are not alike: it shows the share that is done."""
    share = TaskProgressColumn(table_column=Column(no_wrap=True))
    return _bars(share, error_console, disable)


def _bars(amount: ProgressColumn, where: Console, disable: bool) -> Progress:
    """In a narrow terminal only the text about the current work is cut.

    The time left is estimated from the whole past, not from rich's default of half a minute,
    because one step may take longer than that.
    """
    whole = Column(no_wrap=True)
    cut = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    return Progress(
        TextColumn("{task.description}", table_column=whole),
        BarColumn(bar_width=16),
        amount,
        TimeRemainingColumn(table_column=whole.copy()),
        TextColumn("{task.fields[now]}", markup=False, table_column=cut),
        console=where,
        disable=disable,
        expand=True,
        speed_estimate_period=_A_DAY,
    )
