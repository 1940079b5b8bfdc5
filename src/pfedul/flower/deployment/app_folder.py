"""What Flower's command line needs: the app, its connection, and a script that ties both."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import tomli_w

from pfedul.flower.deployment.environment import command_environment, program
from pfedul.flower.deployment.files import EXECUTABLE, write
from pfedul.flower.deployment.layout import Layout
from pfedul.version import __version__

CONNECTION = "pfedul"
_NOTE = "# Written by 'pfedul up', every time it is called; do not edit.\n"


def app_config(run: Path, nodes: int) -> dict[str, Any]:
    """Every key that `flwr run -c` may set: Flower refuses those that are not here."""
    from pfedul.flower.app_config import defaults

    return {**defaults(), "run": str(run), "nodes": nodes}


def write_app(layout: Layout, nodes: int) -> None:
    """The app that nodes and server run; its code is this package, which they have installed."""
    app = {
        "publisher": "pfedul",
        "components": {
            "serverapp": "pfedul.flower.app:server",
            "clientapp": "pfedul.flower.app:client",
        },
        "config": app_config(layout.run, nodes),
    }
    project = {
        "name": "pfedul",
        "version": __version__,
        "description": "A personalised federation that can forget a client.",
        "license": "Apache-2.0",
        "dependencies": [],
    }
    _write_toml(layout.app / "pyproject.toml", {"project": project, "tool": {"flwr": {"app": app}}})


def write_connection(layout: Layout, address: str) -> None:
    """Tells Flower's command line where the server is."""
    connection = {"address": address, "root-certificates": str(layout.authority)}
    words = {"superlink": {"default": CONNECTION, CONNECTION: connection}}
    _write_toml(layout.home / "config.toml", words)


def write_script(layout: Layout, host: str) -> None:
    """`flwr` with this deployment's home and environment."""
    exports = "".join(
        f"export {key}={shlex.quote(value)}\n"
        for key, value in command_environment(layout.home, host).items()
    )
    text = f'#!/bin/sh\n{_NOTE}{exports}exec {shlex.quote(program("flwr"))} "$@"\n'
    write(layout.script, text.encode(), EXECUTABLE)


def _write_toml(path: Path, words: dict[str, Any]) -> None:
    write(path, (_NOTE + tomli_w.dumps(words)).encode())
