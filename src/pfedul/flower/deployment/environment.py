"""The environment of Flower's processes, and the addresses that they are reached by."""

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
from pfedul.flower.deployment.processes import MARK

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
