"""How Flower's programs are called: command lines, environment and addresses."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from contextlib import closing
from pathlib import Path

from pfedul.engine.flower import QUIET
from pfedul.errors import PfedulError
from pfedul.flower.deployment.layout import DeploymentPaths
from pfedul.flower.deployment.processes import MARK, DeploymentRecord

LOOPBACK = "127.0.0.1"
_EVERYWHERE = {"0.0.0.0": LOOPBACK, "::": "::1"}
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def reachable(host: str) -> str:
    """How this machine reaches a server that listens on `host`.

    >>> reachable("0.0.0.0"), reachable("10.0.0.5")
    ('127.0.0.1', '10.0.0.5')
    """
    return _EVERYWHERE.get(host, host)


def address(host: str, port: int) -> str:
    """Host and port in one.

    >>> address("127.0.0.1", 80), address("::1", 80)
    ('127.0.0.1:80', '[::1]:80')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def command_environment(home: Path, host: str) -> dict[str, str]:
    """The variables that Flower needs here: quiet, at home in `home`, past any proxy."""
    known = [os.environ.get("NO_PROXY", ""), os.environ.get("no_proxy", "")]
    direct = ",".join(filter(None, dict.fromkeys([*known, "localhost", LOOPBACK, host])))
    return {
        **QUIET,
        **_ONE_THREAD,
        "FLWR_HOME": str(home),
        "PATH": _path(),
        "NO_PROXY": direct,
        "no_proxy": direct,
    }


def process_environment(layout: DeploymentPaths, name: str, mark: str, host: str) -> dict[str, str]:
    """The whole environment of a process; stray settings of Flower's stay outside."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("FLWR_")}
    home = layout.process_home(name)
    home.mkdir(parents=True, exist_ok=True)
    return {**inherited, **command_environment(home, reachable(host)), MARK: mark}


def _path() -> str:
    """This environment's programs first: Flower starts its own by bare names."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def program(name: str) -> str:
    """One of Flower's programs."""
    found = shutil.which(name, path=_path())
    if found is None:
        raise PfedulError(f"The program {name} is missing; install pfedul[flower] again.")
    return found


def free_port(host: str, wanted: int = 0) -> int | None:
    """`wanted` if it can be had, any free port for 0; None where it cannot be listened on."""
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with closing(socket.socket(kind)) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((host, wanted))
            port: int = trial.getsockname()[1]
            return port
    except OSError:
        return None


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
    words = {"client": name, "folder": str(layout.node(name)), "key": str(layout.key(name))}
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
