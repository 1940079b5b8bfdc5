"""The commands that list the choices: `datasets`, `models`, `personalizations`, `methods`."""

from __future__ import annotations

import click

from pfedul.cli.parts import as_json_flag, example, print_json
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


@example("pfedul datasets --json")
@click.command()
@as_json_flag
def datasets(as_json: bool) -> None:
    """List the data sets and the partitions that deal them to clients."""
    rows = {"datasets": dataset_rows(DATASETS), "partitions": choice_rows(PARTITIONS)}
    _print_tables(rows, as_json)


@example("pfedul personalizations")
@click.command()
@as_json_flag
def personalizations(as_json: bool) -> None:
    """List the personalisations: what each shares, what it keeps, how it trains."""
    _print_tables({"personalizations": personalization_rows(PERSONALIZATIONS)}, as_json)


@example("pfedul models")
@click.command()
@as_json_flag
def models(as_json: bool) -> None:
    """List the models and their options."""
    _print_tables({"models": choice_rows(MODELS)}, as_json)


@example("pfedul methods")
@click.command()
@as_json_flag
def methods(as_json: bool) -> None:
    """List the unlearning methods: what each needs, who works, for how long, what it promises."""
    if as_json:
        print_json({"methods": [method_row(method) for method in METHODS]})
        return
    for method in METHODS:
        print_method(method)


def _print_tables(tables: dict[str, list[dict[str, str]]], as_json: bool) -> None:
    if as_json:
        print_json(tables)
        return
    for title, rows in tables.items():
        table(title, rows)
