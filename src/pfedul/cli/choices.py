"""The commands that list the choices: `datasets`, `tasks`, `models` and others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import pfedul.cli.completion as completion
from pfedul.cli.parts import Output, command, opened, opens
from pfedul.data.datasets import DATASETS
from pfedul.data.partitions import PARTITIONS
from pfedul.models import MODELS
from pfedul.personalization import PERSONALIZATIONS
from pfedul.tasks import TASKS
from pfedul.terminal import choices
from pfedul.terminal.console import table
from pfedul.unlearn.methods import METHODS


@command("pfedul datasets --json", run=False)
def datasets() -> Output:
    """List the data sets and the partitions that deal them to clients."""
    rows = choices.choice_rows(DATASETS, choices.DATASET)
    return _tables({"datasets": rows, "partitions": choices.choice_rows(PARTITIONS)})


@command("pfedul personalizations", run=False)
def personalizations() -> Output:
    """List the personalisations: what each shares, what it keeps, how it trains."""
    rows = choices.choice_rows(PERSONALIZATIONS, choices.PERSONALIZATION)
    return _tables({"personalizations": rows})


@command("pfedul tasks", run=False)
def tasks() -> Output:
    """List the tasks: what can be learned, from which labels."""
    return _tables({"tasks": choices.choice_rows(TASKS)})


@command("pfedul models", run=False)
def models() -> Output:
    """List the models and their options."""
    return _tables({"models": choices.choice_rows(MODELS)})


@command("pfedul methods runs/digits", run=False)
@click.argument(
    "subject",
    metavar="[NAME|RUN]",
    required=False,
    shell_complete=completion.names_or_runs(METHODS),
)
@opens
def methods(subject: str | None, places: dict[str, Any]) -> Output:
    """List the unlearning methods; with NAME all about one, with RUN which of them work on it.

    About one: what it needs, who works, for how long, and what it promises. On a run: whether it
    has the records, clusters and parts that each method needs; the run is only read.
    """
    if subject is not None and subject not in METHODS.names():
        return _usable(Path(subject), places)
    chosen = [METHODS[subject]] if subject is not None else list(METHODS)

    def show() -> None:
        if subject is None:
            choices.print_methods(chosen)
        else:
            choices.print_method(chosen[0])

    return Output({"methods": [choices.method_row(method) for method in chosen]}, show)


def _usable(run: Path, places: dict[str, Any]) -> Output:
    """Which methods can forget a client of this run: its first, as they are alike in this."""
    from pfedul.unlearn.checks import why_not

    if not run.exists():
        METHODS[str(run)]  # neither: the error names the methods that there are
    with opened(run, places, read_only=True) as federation:
        reasons = {one.name: why_not(federation, federation.clients[0], one) for one in METHODS}
    rows = [
        {
            **choices.method_row(method),
            "works": reasons[method.name] is None,
            "why_not": reasons[method.name],
        }
        for method in METHODS
    ]
    data = {"run": str(run), "methods": rows}
    return Output(data, lambda: choices.print_usable(str(run), reasons))


def _tables(tables: dict[str, list[dict[str, str]]]) -> Output:
    def show() -> None:
        for title, rows in tables.items():
            table(title, rows)

    return Output(tables, show)
