"""Writes what a deployment needs, starts what does not run yet, and waits until all of it is up."""

from __future__ import annotations

import secrets
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w

from pfedul.errors import PfedulError
from pfedul.flower.deployment import certificates, control, environment, processes
from pfedul.flower.deployment.environment import LOOPBACK, address, free_port, reachable
from pfedul.flower.deployment.exposure import listening_host
from pfedul.flower.deployment.layout import (
    EXECUTABLE,
    SUPERLINK,
    DeploymentPaths,
    alone,
    new_layout,
    node_names,
    refuse_foreign,
    write,
)
from pfedul.flower.deployment.processes import DeploymentRecord, read_record, write_record
from pfedul.flower.signing import public_form
from pfedul.store.folder import own_errors
from pfedul.version import __version__

_POLL = 0.25
_PORT_SECONDS = 3.0


@dataclass(frozen=True)
class UpOptions:
    """Options of `pfedul up`; None stands for the value of the last call, or else the default."""

    nodes: int | None = None
    clients: tuple[str, ...] = ()
    host: str | None = None
    expose: bool = False
    port: int = 0
    data_root: Path | None = None
    deadline: float = 60.0


@dataclass(frozen=True)
class Deployment:
    """What runs after `up`: the record, the nodes' ids at the server, and what was started."""

    layout: DeploymentPaths
    record: DeploymentRecord
    node_ids: dict[str, int]
    started: tuple[str, ...]


def bring_up(run: Path, options: UpOptions) -> Deployment:
    """Start what is missing; on failure, end what this call has started."""
    layout = new_layout(run)
    names = node_names(layout, options.nodes, options.clients)
    with alone(layout):
        with own_errors(layout.folder):
            record = _record_for(layout, options)
            _write_files(layout, record, names)
        call = _Call(layout, record, time.monotonic() + options.deadline)
        try:
            call.start_server()
            call.start_nodes(names)
            node_ids = call.wait_for_nodes(names)
        except BaseException:
            call.take_back()
            raise
    return Deployment(layout, call.record, node_ids, tuple(call.started))


def _record_for(layout: DeploymentPaths, options: UpOptions) -> DeploymentRecord:
    """The record of the last call, or a new one, with these options."""
    before = read_record(layout)
    if before is None:
        refuse_foreign(layout)
    data_root = None if options.data_root is None else str(options.data_root.absolute())
    last = None if before is None else before.host
    host = listening_host(options.host, last, expose=options.expose)
    if before is None:
        return DeploymentRecord(secrets.token_hex(8), host, _port(host, options.port), data_root)
    wanted = replace(
        before,
        host=host,
        port=options.port or before.port,
        data_root=data_root or before.data_root,
    )
    if wanted != before and before.running():
        raise PfedulError(
            f"It already runs on {address(before.host, before.port)} with data root "
            f"{before.data_root}; call 'pfedul down {layout.run}' before you change that."
        )
    if not before.runs(SUPERLINK):
        _port(wanted.host, wanted.port)
    return wanted


def _port(host: str, wanted: int) -> int:
    ends = time.monotonic() + _PORT_SECONDS
    while (port := free_port(host, wanted)) is None and time.monotonic() < ends:
        time.sleep(_POLL)  # of a process that was killed it is free a moment later
    if port is None:
        raise PfedulError(
            f"Cannot listen on {address(host, wanted)}; free it, or give another --host or --port."
        )
    return port


def _write_files(layout: DeploymentPaths, record: DeploymentRecord, names: Sequence[str]) -> None:
    write_record(layout, record)  # first: what is there without one is not ours
    layout.database.parent.mkdir(parents=True, exist_ok=True)
    for name in names:
        layout.node(name).mkdir(parents=True, exist_ok=True, mode=0o700)
        if not layout.public_key(name).is_file():
            certificates.make_node_key(layout, name)
    host = reachable(record.host)
    write_app(layout, len(names))
    write_connection(layout, address(host, record.port))
    write_script(layout, host)


class _Call:
    """One call of `up`: what it has started so far, to undo it after a failure."""

    def __init__(self, layout: DeploymentPaths, record: DeploymentRecord, deadline: float) -> None:
        self.layout = layout
        self.record = record
        self.started: list[str] = []
        self._deadline = deadline
        where = address(reachable(record.host), record.port)
        self._server = control.Superlink(where, layout.authority)

    def start_server(self) -> None:
        """Start the server, unless it runs, and wait until it answers."""
        if not self.record.runs(SUPERLINK):
            reached_by = ["localhost", LOOPBACK, reachable(self.record.host)]
            certificates.issue_server_certificate(self.layout, reached_by)
            where = address(self.record.host, self.record.port)
            self._start(SUPERLINK, environment.server_command(self.layout, self.record), where)
        self._wait([SUPERLINK], lambda: [SUPERLINK] if self._nodes() is None else [])

    def _nodes(self) -> dict[bytes, control.KnownNode] | None:
        """The nodes that the server knows; None where it does not answer."""
        try:
            return control.nodes(self._server)
        except control.NoAnswer:
            return None

    def start_nodes(self, names: Sequence[str]) -> None:
        """Register and start the nodes that do not run."""
        known = self._nodes() or {}
        for name in names:
            if not self.record.runs(name):
                self._admit(name, known)
                port = self._node_port(name)
                command = environment.node_command(self.layout, self.record, name, port)
                self._start(name, command, address(LOOPBACK, port))

    def _admit(self, name: str, known: dict[bytes, control.KnownNode]) -> None:
        """Make sure that the server will let this node in."""
        node = self._known(name, known)
        if node is not None and node.status == control.UNREGISTERED:
            # The server never takes the old key again.
            certificates.make_node_key(self.layout, name)
            node = None
        key = certificates.node_key(self.layout, name)
        try:
            if node is None:
                control.register(self._server, public_form(key), name)
            elif node.status == control.ONLINE:
                control.sign_off(self._server, node, key)
        except control.NoAnswer as error:
            raise PfedulError(f"The server refused the node of {name} ({error}).") from None

    def _node_port(self, name: str) -> int:
        before = self.record.find(name)
        wanted = int(before.address.rpartition(":")[2]) if before else 0
        return free_port(LOOPBACK, wanted) or _port(LOOPBACK, 0)

    def _start(self, name: str, command: Sequence[str], where: str) -> None:
        mark = self.record.mark(name)
        processes.end([], [mark])  # what a killed process has left behind
        variables = environment.process_environment(self.layout, name, mark, self.record.host)
        self.started.append(name)
        process = processes.start(name, command, variables, where, self.layout.log(name))
        self.record = self.record.with_process(process)
        write_record(self.layout, self.record)

    def wait_for_nodes(self, names: Sequence[str]) -> dict[str, int]:
        """Wait until all are online; returns their ids at the server."""
        self._wait(names, lambda: [*(set(names) - set(self._online(names)))])
        return self._online(names)

    def _online(self, names: Sequence[str]) -> dict[str, int]:
        """Those of the nodes that are online, with their ids at the server."""
        known = self._nodes() or {}
        nodes = {name: self._known(name, known) for name in names}
        online = control.ONLINE
        return {name: node.id for name, node in nodes.items() if node and node.status == online}

    def _known(self, name: str, known: dict[bytes, control.KnownNode]) -> control.KnownNode | None:
        return known.get(public_form(certificates.node_key(self.layout, name)))

    def _wait(self, names: Sequence[str], missing: Callable[[], list[str]]) -> None:
        """Until nobody is missing; a process that ends, or the deadline, is a failure."""
        while absent := missing():
            for name in names:
                if not self.record.runs(name):
                    raise PfedulError(self._sentence(name, "ended while it started"))
            if time.monotonic() > self._deadline:
                raise PfedulError(self._sentence(absent[0], "was not ready in time"))
            time.sleep(_POLL)

    def _sentence(self, name: str, what: str) -> str:
        log = self.layout.log(name)
        return f"The process {name} {what}; read {log}, which ends with: {processes.last_line(log)}"

    def take_back(self) -> None:
        """End what this call has started."""
        for name in reversed(self.started):
            process = self.record.find(name)
            processes.end([process] if process else [], [self.record.mark(name)])


CONNECTION = "pfedul"
_NOTE = "# Written by 'pfedul up', every time it is called; do not edit.\n"


def app_config(run: Path, nodes: int) -> dict[str, Any]:
    """Every key that `flwr run -c` may set: Flower refuses those that are not here."""
    from pfedul.flower.app_config import defaults

    return {**defaults(), "run": str(run), "nodes": nodes}


def write_app(layout: DeploymentPaths, nodes: int) -> None:
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


def write_connection(layout: DeploymentPaths, address: str) -> None:
    """Tells Flower's command line where the server is."""
    connection = {"address": address, "root-certificates": str(layout.authority)}
    words = {"superlink": {"default": CONNECTION, CONNECTION: connection}}
    _write_toml(layout.home / "config.toml", words)


def write_script(layout: DeploymentPaths, host: str) -> None:
    """`flwr` with this deployment's home and environment."""
    exports = "".join(
        f"export {key}={shlex.quote(value)}\n"
        for key, value in environment.command_environment(layout.home, host).items()
    )
    text = f'#!/bin/sh\n{_NOTE}{exports}exec {shlex.quote(environment.program("flwr"))} "$@"\n'
    write(layout.script, text.encode(), EXECUTABLE)


def _write_toml(path: Path, words: dict[str, Any]) -> None:
    write(path, (_NOTE + tomli_w.dumps(words)).encode())
