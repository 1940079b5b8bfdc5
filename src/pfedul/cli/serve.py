"""The command `serve`."""

from __future__ import annotations

from pathlib import Path

import click

from pfedul.cli.parts import Output, command
from pfedul.terminal.console import line, waiting


@command("pfedul serve runs/", run=False)
@click.argument(
    "places", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Where to listen on this machine; a free port if not given.",
)
def serve(places: tuple[Path, ...], port: int) -> Output:
    """Show runs in a browser, live: progress, requests and their due dates, evidence.

    RUN is a run folder, or a folder of them, in which new ones may appear. They are only read, and
    may be in use. Only this machine is answered, and only at the address that is printed. Ctrl-C
    ends it.
    """
    with waiting("Loading pfedul"):
        from pfedul.dashboard.routes import Dashboard
        from pfedul.dashboard.server import Server

    server = Server(Dashboard(places), port)
    runs = [str(run) for run in server.dashboard.runs]
    return Output(
        {"address": server.address, "runs": runs},
        lambda: line(f"Open {server.address} in a browser; Ctrl-C ends it."),
        then=server.run,
    )
