"""The command line: parses and prints, nothing else."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

import click

from pfedul import show
from pfedul.data import DATASETS, PARTITIONS
from pfedul.errors import PfedulError
from pfedul.federation import Federation, read_settings
from pfedul.models import MODELS
from pfedul.personalization import PERSONALIZATIONS
from pfedul.settings import Settings, changeable, from_mapping, merge, option_name, read_toml
from pfedul.status import read_status
from pfedul.store import LEDGER_FILE
from pfedul.version import __version__

INTERRUPTED = 130


class SentenceErrors(click.Group):
    """A user's mistake is one sentence on stderr and a non-zero exit."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PfedulError as error:
            raise click.ClickException(str(error)) from error


def _example(text: str) -> Callable[[Any], Any]:
    """The example at the foot of a command's help, kept as it is written."""

    def add(command: click.Command) -> click.Command:
        command.epilog = f"\b\nExample:\n  {text}"
        return command

    return add


_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON; see docs/json.md.")
_run = click.argument("run", type=click.Path(path_type=Path))


@click.group(cls=SentenceErrors)
@click.version_option(__version__, package_name="pfedul")
def main() -> None:
    """Train a personalised federation, forget a client, prove it."""


def _setting_options(command: Callable[..., None]) -> Callable[..., None]:
    """One option for each field of Settings; what is not given stays out of the call."""
    kinds = {"int": int, "float": float, "str": str}
    for spec in reversed(fields(Settings)):
        kind = kinds[str(spec.type).split(" | ")[0]]
        choices = spec.metadata["choices"]
        default = "" if spec.default is None else f"  [default: {spec.default}]"
        command = click.option(
            option_name(spec.name),
            spec.name,
            type=click.Choice(choices) if choices else kind,
            default=None,
            help=spec.metadata["help"] + default,
        )(command)
    return command


@_example("pfedul train runs/digits --personalization fedrep --clients 10 --rounds 20")
@main.command()
@_run
@click.option("--config", type=click.Path(path_type=Path), help="Options from a TOML file.")
@_setting_options
@_as_json
def train(run: Path, config: Path | None, as_json: bool, **options: Any) -> None:
    """Train the federation in the folder RUN, or continue it.

    Options on the command line win over those of --config. What was used is
    written to RUN/federation.toml. Called again on the same RUN it continues to
    --rounds; an option that conflicts with the run is refused.
    """
    asked = read_toml(config) if config else {}
    asked |= {key: value for key, value in options.items() if value is not None}
    with _open_or_create(run, asked, config) as federation, show.training_bar(as_json) as report:
        before = federation.rounds
        try:
            federation.train(progress=report)
        except KeyboardInterrupt:
            report.stop()
            _stop_after(federation.rounds, run)
    _print_training(run, before, as_json)


def _open_or_create(run: Path, asked: dict[str, Any], config: Path | None) -> Federation:
    settings = from_mapping(asked, str(config or "the command line"))
    if (run / LEDGER_FILE).is_file():
        merge(read_settings(run), asked)
        with show.waiting("Opening the run"):
            return Federation.open(run, **changeable(asked))
    with show.waiting(f"Loading {settings.data}"):
        federation = Federation.create(run, **asked)
    for warning in federation.warnings:
        click.echo(f"Warning: {warning}", err=True)
    return federation


def _stop_after(rounds: int, run: Path) -> NoReturn:
    click.echo(
        f"Stopped after round {rounds}, which is saved; 'pfedul train {run}' goes on from there.",
        err=True,
    )
    sys.exit(INTERRUPTED)


def _print_training(run: Path, before: int, as_json: bool) -> None:
    status = read_status(run)
    if as_json:
        _print_json(status)
    else:
        show.trained(status, before)


@_example("pfedul status runs/digits")
@main.command()
@_run
@_as_json
def status(run: Path, as_json: bool) -> None:
    """Show the state of RUN: rounds, clients, accuracy, refused replies, size.

    It only reads, so it may be called while RUN is being trained.
    """
    found = read_status(run)
    if as_json:
        _print_json(found)
    else:
        show.status(found)


@_example("pfedul evaluate runs/digits --json")
@main.command()
@_run
@click.option("--data-root", help="Folder with the data files, if they have moved.")
@_as_json
def evaluate(run: Path, data_root: str | None, as_json: bool) -> None:
    """Measure each client's personal model on the client's own test samples."""
    later: dict[str, Any] = {} if data_root is None else {"data_root": data_root}
    with show.waiting("Evaluating"), Federation.open(run, **later) as federation:
        evaluation = federation.evaluate()
    if as_json:
        _print_json(show.evaluation_data(evaluation))
    else:
        show.evaluation(evaluation)


@_example("pfedul datasets --json")
@main.command()
@_as_json
def datasets(as_json: bool) -> None:
    """List the data sets and the partitions that deal them to clients."""
    tables = {"datasets": show.dataset_rows(DATASETS), "partitions": show.choice_rows(PARTITIONS)}
    _print_tables(tables, as_json)


@_example("pfedul personalizations")
@main.command()
@_as_json
def personalizations(as_json: bool) -> None:
    """List the personalisations: what each shares, what it keeps, how it trains."""
    _print_tables({"personalizations": show.personalization_rows(PERSONALIZATIONS)}, as_json)


@_example("pfedul models")
@main.command()
@_as_json
def models(as_json: bool) -> None:
    """List the models and their options."""
    _print_tables({"models": show.choice_rows(MODELS)}, as_json)


def _print_tables(tables: dict[str, list[dict[str, str]]], as_json: bool) -> None:
    if as_json:
        _print_json(tables)
        return
    for title, rows in tables.items():
        show.table(title, rows)


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))
