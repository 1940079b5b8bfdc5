"""What commands have in common: arguments, options, how results are printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pfedul.base.options import option_name, plain_type
from pfedul.errors import PfedulError
from pfedul.store.ledger import Ledger
from pfedul.store.paths import LEDGER_FILE
from pfedul.store.soundness import content_of
from pfedul.store.trust import contradictions
from pfedul.terminal.console import waiting

if TYPE_CHECKING:
    from pfedul.federation import Federation

INTERRUPTED = 130

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
_opening_options = (
    data_root_option,
    click.option("--data", help="Data of your own, if RUN does not say it, or is not yours."),
    click.option("--model", help="The same for a model: package.module:function."),
)


@dataclass(frozen=True)
class Output:
    """The result of a command as plain data for --json, and what prints it for people.

    `error` is the sentence to end with where the result is there, but not a success.
    """

    data: Any
    show: Callable[[], None]
    error: str | None = None


Function = Callable[..., Output]


def command(
    example: str, *, run: bool = True, looks: bool = False
) -> Callable[[Function], click.Command]:
    """A command with this example in its help: RUN (unless not `run`), its own options, --json.

    `looks`: it shows what RUN says, and nothing in RUN is trusted.
    """

    def make(function: Function) -> click.Command:
        @wraps(function)
        def print_result(as_json: bool, **options: Any) -> None:
            with content_of(options["run"]) if looks else nullcontext():
                output = function(**options)
                if as_json:
                    click.echo(json.dumps(output.data, indent=2))
                else:
                    output.show()
            if output.error is not None:
                raise PfedulError(output.error)

        made = click.command(epilog=f"\b\nExample:\n  {example}")(print_result)
        argument = click.Argument(["run"], type=click.Path(path_type=Path))
        flag = click.Option(
            ["--json", "as_json"], is_flag=True, help="Print JSON; see docs/json.md."
        )
        made.params = [*([argument] if run else []), *made.params, flag]
        return made

    return make


def options_of(kind: type[Any]) -> Callable[[Function], Function]:
    """One command-line option for each field; those not given are None."""
    kinds = {"int": int, "float": float, "str": str, "bool": bool}

    def add(function: Function) -> Function:
        for spec in reversed(fields(kind)):
            choices = spec.metadata["choices"]
            default = "" if spec.default is None else f"  [default: {spec.default}]"
            flag = plain_type(spec) == "bool"
            function = click.option(
                option_name(spec.name),
                spec.name,
                type=click.Choice(choices) if choices else kinds[plain_type(spec)],
                is_flag=flag,
                default=None,
                help=spec.metadata["help"] + ("" if flag else default),
            )(function)
        return function

    return add


def not_as_signed(run: Path) -> str | None:
    """What to end with where a run was changed by something else."""
    with closing(Ledger(run / LEDGER_FILE, read_only=True)) as ledger:
        wrong = contradictions(run, ledger)
    return f"{run} is not as it was signed; see 'pfedul verify {run}'." if wrong else None


def given(options: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value is not None}


def opens(function: Function) -> Function:
    """Options of a command that opens RUN; it gets those that were given as `places`."""

    @wraps(function)
    def with_places(
        data_root: str | None, data: str | None, model: str | None, **options: Any
    ) -> Output:
        places = given({"data_root": data_root, "data": data, "model": model})
        return function(places=places, **options)

    for option in reversed(_opening_options):
        with_places = option(with_places)
    return with_places


def opened(run: Path, places: dict[str, Any], *, read_only: bool = False) -> Federation:
    """Open the federation of a run, with its data and its model."""
    with waiting("Loading pfedul"):
        from pfedul.federation import Federation

    with waiting("Opening the run"):
        return Federation.open(run, read_only=read_only, **places)
