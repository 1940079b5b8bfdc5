"""The command line: parses options, calls the library and prints."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from pfedul.base.keys import KEY_VARIABLE
from pfedul.base.text import visible
from pfedul.cli import (
    choices,
    compare,
    deploy,
    evidence,
    export,
    forget,
    proof,
    reproduce,
    serve,
    shell,
    train,
)
from pfedul.cli.parts import INTERRUPTED
from pfedul.errors import OutOfMemory, PfedulError
from pfedul.terminal.console import replace_unprintable
from pfedul.version import __version__

COMMANDS = (
    train.train,
    train.status,
    train.evaluate,
    forget.inspect,
    forget.forget,
    forget.recalibrate,
    forget.admit,
    evidence.rehearse,
    evidence.audit,
    evidence.report,
    serve.serve,
    export.export,
    proof.certificate,
    proof.verify,
    proof.key,
    compare.compare,
    reproduce.reproduce,
    choices.datasets,
    choices.tasks,
    choices.models,
    choices.personalizations,
    choices.methods,
    deploy.up,
    deploy.down,
    shell.completion,
)


class Commands(click.Group):
    """A group whose errors and interruptions are one sentence on stderr and a non-zero exit."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        replace_unprintable()
        with _terminated_as_interrupted():
            return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        as_json = "--json" in ctx.args
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            message, code = str(error) or SAVED, INTERRUPTED
        except MemoryError:
            message, code = str(OutOfMemory()), OutOfMemory.exit_code
        except PfedulError as error:
            message, code = visible(str(error)), error.exit_code
        except click.ClickException as error:
            if not as_json:
                raise
            message, code = error.format_message(), error.exit_code
        _print_error(message, code, as_json)
        raise click.exceptions.Exit(code)


SAVED = "Interrupted; everything that was finished is saved."


def _print_error(message: str, code: int, as_json: bool) -> None:
    """Why a command did not do what was asked: a sentence on stderr, or JSON."""
    text = message if code == INTERRUPTED else f"Error: {message}"
    click.echo(json.dumps({"error": message, "exit_code": code}) if as_json else text, err=True)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does: what was finished is saved, workers are ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@click.group(cls=Commands)
@click.version_option(__version__, package_name="pfedul")
@click.option(
    "--key",
    metavar="FILE",
    help="The key that signs, in place of your own ('pfedul key').  [env: PFEDUL_KEY]",
)
def main(key: str | None) -> None:
    """Train a personalised federation, forget a client, prove it."""
    if key is not None:
        os.environ[KEY_VARIABLE] = key  # also for processes that this one starts


for command in COMMANDS:
    main.add_command(command)
