"""The commands `up` and `down`.

Flower is an optional extra, so it is imported only when one of them runs.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pfedul.cli.parts import Output, command
from pfedul.terminal.console import line, table, waiting

if TYPE_CHECKING:
    from pfedul.flower.deployment.up import Deployment


@command("pfedul up runs/hospitals --nodes 3")
@click.option("--nodes", type=click.IntRange(min=1), help="How many nodes; 3 for a new run.")
@click.option("--clients", multiple=True, metavar="ID", help="A node's client; may be given again.")
@click.option("--host", help="Address that the server listens on.  [default: 127.0.0.1]")
@click.option(
    "--expose",
    is_flag=True,
    help="Allow a --host that other machines reach: who does can run code on server and nodes.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port that the server listens on; 0 chooses one and keeps it.",
)
@click.option(
    "--data-root", type=click.Path(path_type=Path), help="Folder with the data files, at all nodes."
)
@click.option(
    "--deadline",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds to wait until all are ready.",
)
def up(run: Path, **options: Any) -> Output:
    """Start a Flower deployment of RUN on this machine, for trying out.

    A server and a node for each client, with TLS and authenticated nodes. What
    runs already is left alone; what has died is started again under its old
    identity. All of it lies in RUN/deployment. docs/deploy.md goes on from here
    to real hosts.
    """
    from pfedul.engine.flower import require_flower

    require_flower()
    from pfedul.flower.deployment.exposure import MEANING
    from pfedul.flower.deployment.up import UpOptions, bring_up

    with waiting("Starting Flower"):
        deployment = bring_up(run, UpOptions(**options))
    result = _as_json(run, deployment)
    if result["exposed"]:
        click.echo(f"Warning: the server listens beyond this machine, and {MEANING}.", err=True)
    return Output(result, lambda: _print_deployment(result))


def _as_json(run: Path, deployment: Deployment) -> dict[str, Any]:
    from pfedul.flower.deployment.exposure import is_loopback

    ids = {name: str(node_id) for name, node_id in deployment.node_ids.items()}
    return {
        "run": str(run),
        "folder": str(deployment.layout.folder),
        "exposed": not is_loopback(deployment.record.host),
        "started": list(deployment.started),
        "processes": [
            {
                "name": process.name,
                "pid": process.pid,
                "address": process.address,
                "log": process.log,
                # As text: 64 bits are more than JSON numbers can hold exactly.
                "node_id": ids.get(process.name),
            }
            for process in deployment.record.running()
        ],
        "next": _next_commands(run, list(deployment.node_ids)),
    }


def _next_commands(run: Path, clients: list[str]) -> dict[str, str]:
    folder = run / "deployment"
    someone = clients[:2][-1]
    start = f"{shlex.quote(f'{folder}/flwr')} run {shlex.quote(f'{folder}/app')} pfedul --stream"
    return {
        "train": f"{start} -c 'action=\"train\" rounds=2'",
        "forget": f'{start} -c \'action="forget" client="{someone}" by="case 17" ground="trial"\'',
        "status": f"pfedul status {shlex.quote(str(run))}",
        "down": f"pfedul down {shlex.quote(str(run))}",
    }


def _print_deployment(deployment: dict[str, Any]) -> None:
    shown = ("name", "pid", "address", "log")
    rows = [{key: str(item[key]) for key in shown} for item in deployment["processes"]]
    table(f"running in {deployment['folder']}", rows)
    started = ", ".join(deployment["started"])
    line(f"Started: {started}." if started else "All of it was running already.")
    line("Next:")
    for text in deployment["next"].values():
        line(f"  {text}")


@command("pfedul down runs/hospitals")
def down(run: Path) -> Output:
    """End the processes that 'pfedul up RUN' has started, and only those.

    Keys, certificates, the server's database and the clients' own folders stay:
    'pfedul up RUN' starts the same nodes again.
    """
    from pfedul.flower.deployment.down import bring_down

    with waiting("Ending Flower"):
        ended = bring_down(run)
    if not ended.scrubbed:
        click.echo("Warning: the server's database may still hold deleted messages.", err=True)
    names = ", ".join(process.name for process in ended.processes) or "leftovers"
    text = f"Nothing of {run} is running."
    if ended.pids:
        text = f"Ended {names}: {len(ended.pids)} processes with their children."
    result = {
        "run": str(run),
        "ended": [{"name": process.name, "pid": process.pid} for process in ended.processes],
        "pids": list(ended.pids),
        "scrubbed": ended.scrubbed,
    }
    return Output(result, lambda: line(text))
