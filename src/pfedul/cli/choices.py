"""The commands that list the choices: `datasets`, `models`, `personalizations`, `methods`."""

from __future__ import annotations

from pfedul.cli.parts import Output, command
from pfedul.data import DATASETS, PARTITIONS
from pfedul.models import MODELS
from pfedul.personalization import PERSONALIZATIONS
from pfedul.terminal.choices import (
    choice_rows,
    dataset_rows,
    method_row,
    personalization_rows,
    print_method,
)
from pfedul.terminal.console import table
from pfedul.unlearn.methods import METHODS


@command("pfedul datasets --json", run=False)
def datasets() -> Output:
    """List the data sets and the partitions that deal them to clients."""
    rows = {"datasets": dataset_rows(DATASETS), "partitions": choice_rows(PARTITIONS)}
    return _tables(rows)


@command("pfedul personalizations", run=False)
def personalizations() -> Output:
    """List the personalisations: what each shares, what it keeps, how it trains."""
    return _tables({"personalizations": personalization_rows(PERSONALIZATIONS)})


@command("pfedul models", run=False)
def models() -> Output:
    """List the models and their options."""
    return _tables({"models": choice_rows(MODELS)})


@command("pfedul methods", run=False)
def methods() -> Output:
    """List the unlearning methods: what each needs, who works, for how long, what it promises."""
    rows = [method_row(method) for method in METHODS]
    return Output({"methods": rows}, _print_methods)


def _print_methods() -> None:
    for method in METHODS:
        print_method(method)


def _tables(tables: dict[str, list[dict[str, str]]]) -> Output:
    def show() -> None:
        for title, rows in tables.items():
            table(title, rows)

    return Output(tables, show)
