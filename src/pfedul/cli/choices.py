"""The commands that list the choices: `datasets`, `tasks`, `models` and others."""

from __future__ import annotations

from pfedul.cli.parts import Output, command
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


@command("pfedul methods", run=False)
def methods() -> Output:
    """List the unlearning methods: what each needs, who works, for how long, what it promises."""

    def show() -> None:
        for method in METHODS:
            choices.print_method(method)

    return Output({"methods": [choices.method_row(method) for method in METHODS]}, show)


def _tables(tables: dict[str, list[dict[str, str]]]) -> Output:
    def show() -> None:
        for title, rows in tables.items():
            table(title, rows)

    return Output(tables, show)
