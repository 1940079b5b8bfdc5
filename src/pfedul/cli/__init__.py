"""The command line: parses options, calls the library and prints."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from pfedul.base.keys import KEY_VARIABLE
from pfedul.base.text import visible
from pfedul.cli import choices, compare, deploy, evidence, export, forget, proof, reproduce, train
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
)


class Commands(click.Group):
    """A group whose errors and interruptions are one sentence on stderr and a non-zero exit."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        replace_unprintable()
        with _terminated_as_interrupted():
            return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PfedulError as error:
            raise click.ClickException(visible(str(error))) from error
        except MemoryError as error:
            raise click.ClickException(str(OutOfMemory())) from error
        except KeyboardInterrupt:
            click.echo("Interrupted; everything that was finished is saved.", err=True)
            ctx.exit(INTERRUPTED)


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
