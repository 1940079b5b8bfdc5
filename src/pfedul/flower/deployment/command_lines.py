"""How Flower's server and nodes are called."""

from __future__ import annotations

from pfedul.errors import PfedulError
from pfedul.flower.deployment.environment import LOOPBACK, address, program, reachable
from pfedul.flower.deployment.layout import DeploymentPaths
from pfedul.flower.deployment.processes import DeploymentRecord


def server_command(layout: DeploymentPaths, record: DeploymentRecord) -> list[str]:
    """How the server is started."""
    return [
        program("flower-superlink"),
        *("--ssl-ca-certfile", str(layout.authority)),
        *("--ssl-certfile", str(layout.server_certificate)),
        *("--ssl-keyfile", str(layout.server_key)),
        "--enable-supernode-auth",
        *("--host", record.host),
        *("--port", str(record.port)),
        *("--database", str(layout.database)),
        "--disable-runtime-dependency-installation",
    ]


def node_command(
    layout: DeploymentPaths, record: DeploymentRecord, name: str, port: int
) -> list[str]:
    """How a client's node is started."""
    return [
        program("flower-supernode"),
        *("--root-certificates", str(layout.authority)),
        *("--superlink", address(reachable(record.host), record.port)),
        *("--auth-supernode-private-key", str(layout.key(name))),
        *("--host", LOOPBACK),
        *("--port", str(port)),
        *("--node-config", node_config(layout, record, name)),
    ]


def node_config(layout: DeploymentPaths, record: DeploymentRecord, name: str) -> str:
    """What the client's side of the app reads: who it is, its own folder, where its data is."""
    words = {"client": name, "folder": str(layout.node(name))}
    if record.data_root is not None:
        words["data-root"] = record.data_root
    return " ".join(f"{key}={quoted(value)}" for key, value in words.items())


def quoted(value: str) -> str:
    """A text as Flower reads it: in the quotes that it does not hold itself.

    >>> quoted('/data/ward 3'), quoted('a "b"')
    ('"/data/ward 3"', '\\'a "b"\\'')
    """
    if not set('"\\\n') & set(value):
        return f'"{value}"'
    if not set("'\n") & set(value):
        return f"'{value}'"
    raise PfedulError(f"Flower cannot take the path {value!r}; use one without quotes.")
