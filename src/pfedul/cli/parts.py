"""What commands have in common: arguments, options, how results are printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import pfedul.cli.completion as completion
from pfedul.base.options import option_name, plain_type
from pfedul.base.text import visible
from pfedul.errors import PfedulError, RequirementNotMet
from pfedul.store.ledger import Ledger
from pfedul.store.paths import LEDGER_FILE
from pfedul.store.soundness import content_of
from pfedul.store.trust import contradictions
from pfedul.terminal.console import waiting

if TYPE_CHECKING:
    from pfedul.federation import Federation

INTERRUPTED = 130
EXIT_CODES = {
    0: "done; also where it was done before",
    1: "refused, or failed: one sentence says why",
    2: "wrong usage: an option, or a value that it cannot have",
    RequirementNotMet.exit_code: "done, but the result is not what `--require` asks for",
    INTERRUPTED: "interrupted; everything that was finished is saved",
}

client_options = click.option(
    "--client",
    "clients",
    multiple=True,
    metavar="ID",
    help="The client; may be given again.",
    shell_complete=completion.clients,
)
away_options = click.option(
    "--away",
    multiple=True,
    metavar="ID",
    shell_complete=completion.clients,
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

    `error` is what to end with where the result is there, but not a success; `then` goes on after
    it was printed.
    """

    data: Any
    show: Callable[[], None]
    error: PfedulError | None = None
    then: Callable[[], None] = lambda: None


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
                raise output.error
            output.then()

        made = click.command(cls=Command, epilog=f"\b\nExample:\n  {example}")(print_result)
        argument = click.Argument(["run"], type=click.Path(path_type=Path))
        flag = click.Option(
            ["--json", "as_json"], is_flag=True, help="Print JSON; see docs/json.md."
        )
        made.params = [*([argument] if run else []), *made.params, flag]
        return made

    return make


class Option(click.Option):
    """An option that stands under a heading of its own in the help."""

    def __init__(self, *args: Any, group: str | None = None, **rest: Any) -> None:
        super().__init__(*args, **rest)
        self.group = group


class Command(click.Command):
    """A command whose help has a section for each group of options, after the others."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {"Options": []}
        options = (param for param in self.get_params(ctx) if isinstance(param, click.Option))
        for param in options:
            record = param.get_help_record(ctx)
            if record is not None:
                name = getattr(param, "group", None) or "Options"
                groups.setdefault(name, []).append(record)
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records)


def options_of(kind: type[Any]) -> Callable[[Function], Function]:
    """One command-line option for each field; those not given are None."""
    kinds = {"int": int, "float": float, "str": str, "bool": bool}

    def add(function: Function) -> Function:
        for spec in reversed(fields(kind)):
            choices = spec.metadata["choices"]
            default = "" if spec.default is None else f"  [default: {spec.default}]"
            flag = plain_type(spec) == "bool"
            words = click.Choice(choices, case_sensitive=False) if choices else None
            function = click.option(
                option_name(spec.name),
                spec.name,
                cls=Option,
                group=spec.metadata["group"],
                type=words or kinds[plain_type(spec)],
                is_flag=flag,
                default=None,
                help=spec.metadata["help"] + ("" if flag else default),
                shell_complete=completion.of_field(spec),
            )(function)
        return function

    return add


def not_as_signed(run: Path) -> PfedulError | None:
    """What to end with where a run was changed by something else."""
    with closing(Ledger(run / LEDGER_FILE, read_only=True)) as ledger:
        wrong = contradictions(run, ledger)
    sentence = f"{run} is not as it was signed; see 'pfedul verify {run}'."
    return PfedulError(sentence) if wrong else None


def require_option(also: str = "") -> Callable[[Function], Function]:
    """The option `--require`; `also` ends its help."""
    return click.option(
        "--require",
        type=click.Choice(["partly", "no-leak", "forgotten"], case_sensitive=False),
        help=f"Exit with {RequirementNotMet.exit_code} unless the verdict is at least this; "
        f"no-leak: forgotten, or nothing measurable to forget.{also}",
    )


def unmet(verdict: str, required: str | None) -> RequirementNotMet | None:
    """The error of a verdict that is less than what is required."""
    from pfedul.audit.advice import meets

    if meets(verdict, required):
        return None
    return RequirementNotMet(f"The verdict is '{verdict}', and --require asks for '{required}'.")


@contextmanager
def usage() -> Iterator[None]:
    """Within the block a value that an option cannot have is wrong usage."""
    try:
        yield
    except PfedulError as error:
        raise click.UsageError(visible(str(error))) from error


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
    """Open the federation of a run, with its data and its model; a reader is warned."""
    with waiting("Loading pfedul"):
        from pfedul.federation import Federation

    with waiting("Opening the run"):
        federation = Federation.open(run, read_only=read_only, **places)
    for sentence in contradictions(run, federation.store.ledger) if read_only else ():
        click.echo(f"Warning: {sentence}", err=True)
    return federation
