"""What commands have in common: arguments, options, JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from pfedul.base.options import option_name, plain_type
from pfedul.federation import Federation
from pfedul.terminal.console import waiting

INTERRUPTED = 130

as_json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON; see docs/json.md.")
run_argument = click.argument("run", type=click.Path(path_type=Path))
client_options = click.option(
    "--client", "clients", multiple=True, metavar="ID", help="The client; may be given again."
)
away_options = click.option(
    "--away",
    multiple=True,
    metavar="ID",
    help="This client, perhaps a target, is not there: not asked, recalibrates later.",
)
data_root_option = click.option(
    "--data-root", help="Folder with the data files, if they have moved."
)


def example(text: str) -> Callable[[Any], Any]:
    """Add an example at the end of a command's help."""

    def add(command: click.Command) -> click.Command:
        command.epilog = f"\b\nExample:\n  {text}"
        return command

    return add


def options_of(kind: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """One command-line option for each field; those not given are None."""
    kinds = {"int": int, "float": float, "str": str, "bool": bool}

    def add(command: Callable[..., None]) -> Callable[..., None]:
        for spec in reversed(fields(kind)):
            choices = spec.metadata["choices"]
            default = "" if spec.default is None else f"  [default: {spec.default}]"
            flag = plain_type(spec) == "bool"
            command = click.option(
                option_name(spec.name),
                spec.name,
                type=click.Choice(choices) if choices else kinds[plain_type(spec)],
                is_flag=flag,
                default=None,
                help=spec.metadata["help"] + ("" if flag else default),
            )(command)
        return command

    return add


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given."""
    return {key: value for key, value in options.items() if value is not None}


def opened(run: Path, data_root: str | None) -> Federation:
    """Open the federation of a run, with its data."""
    later: dict[str, Any] = {} if data_root is None else {"data_root": data_root}
    with waiting("Opening the run"):
        return Federation.open(run, **later)


def print_json(value: Any) -> None:
    """Print a result as JSON."""
    click.echo(json.dumps(value, indent=2))
