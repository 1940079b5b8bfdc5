"""Where everything of a deployment is, below `RUN/deployment`, and whose nodes it has."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pfedul.data.checks import check_ids, numbered_ids
from pfedul.errors import PfedulError
from pfedul.store.folder import own_errors, take_lock
from pfedul.store.ledger import Ledger
from pfedul.store.nodes import unconfirmed_erasures
from pfedul.store.paths import DEPLOYMENT, LEDGER_FILE, refuse_links
from pfedul.store.requests import forgotten
from pfedul.store.tables import read_members

SUPERLINK = "superlink"
"""Name of the server's process; every other process bears the name of its client."""


@dataclass(frozen=True)
class DeploymentPaths:
    """The paths of one deployment; all of them are absolute."""

    run: Path

    @property
    def folder(self) -> Path:
        return self.run / DEPLOYMENT

    @property
    def authority(self) -> Path:
        return self.folder / "certificates/ca.pem"

    @property
    def authority_key(self) -> Path:
        return self.folder / "certificates/ca.key"

    @property
    def server_certificate(self) -> Path:
        return self.folder / "certificates/server.pem"

    @property
    def server_key(self) -> Path:
        return self.folder / "certificates/server.key"

    @property
    def keys(self) -> Path:
        return self.folder / "keys"

    @property
    def database(self) -> Path:
        return self.folder / "superlink/state.db"

    @property
    def home(self) -> Path:
        """Flower's home for the command line."""
        return self.folder / "home"

    @property
    def app(self) -> Path:
        return self.folder / "app"

    @property
    def script(self) -> Path:
        """Flower's command line, bound to this deployment."""
        return self.folder / "flwr"

    @property
    def record(self) -> Path:
        return self.folder / "processes.json"

    def key(self, client: str) -> Path:
        return self.keys / client

    def public_key(self, client: str) -> Path:
        return self.keys / f"{client}.pub"

    def node(self, client: str) -> Path:
        """The client's own folder: what it holds never leaves its node."""
        return self.folder / "nodes" / client

    def process_home(self, name: str) -> Path:
        """Flower's home for a process; no two share one."""
        return self.folder / "homes" / name

    def log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def clients(self) -> list[str]:
        """The clients that have a node here: those with a key."""
        return sorted(file.name.removesuffix(".pub") for file in self.keys.glob("*.pub"))


def new_layout(run: Path) -> DeploymentPaths:
    """The layout for a deployment that may not exist yet; refuses places that cannot hold one."""
    if run.exists() and not run.is_dir():
        raise PfedulError(f"{run} is a file, not a run folder; give another path.")
    if run.is_dir() and any(run.iterdir()) and not _is_ours(run):
        raise PfedulError(f"{run} is not empty and not a run; give another path.")
    return _without_links(run)


def existing_layout(run: Path) -> DeploymentPaths:
    """The layout of a deployment that is there."""
    layout = _without_links(run)
    if not layout.record.is_file():
        raise PfedulError(f"There is no deployment in {run}; start one with 'pfedul up {run}'.")
    return layout


def _without_links(run: Path) -> DeploymentPaths:
    layout = DeploymentPaths(Path(os.path.abspath(run)))
    refuse_links(layout.run)
    refuse_links(layout.folder)
    return layout


def _is_ours(run: Path) -> bool:
    return (run / LEDGER_FILE).is_file() or (run / DEPLOYMENT).is_dir()


@contextmanager
def alone(layout: DeploymentPaths) -> Iterator[None]:
    """Keeps two commands from starting or ending the same processes at once."""
    with own_errors(layout.folder):
        layout.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = take_lock(layout.folder)
    with lock:
        yield


DEFAULT_NODES = 3


def node_names(layout: DeploymentPaths, nodes: int | None, clients: Sequence[str]) -> list[str]:
    """The clients whose nodes are to run."""
    if nodes is not None and clients:
        raise PfedulError("Give either --nodes or --clients.")
    if clients:
        return _checked(clients)
    standing = _standing(layout)
    return _as_before(layout, nodes) if standing is None else _of_run(layout, standing, nodes)


@dataclass(frozen=True)
class Standing:
    """What a run's ledger says of its clients: the active ones, and those who are done with it."""

    active: frozenset[str]
    done: frozenset[str]


def _of_run(layout: DeploymentPaths, standing: Standing, nodes: int | None) -> list[str]:
    """The clients of the run, and others that have a node: newcomers, and those yet to erase."""
    count = len(standing.active)
    if nodes not in {None, count}:
        raise PfedulError(
            f"The run {layout.run} has {count} active clients, not {nodes}; "
            "leave out --nodes, or name nodes with --clients."
        )
    wanted = standing.active | (set(layout.clients()) - standing.done)
    if not wanted:
        raise PfedulError(f"The run {layout.run} has no active client; name some with --clients.")
    return sorted(wanted)


def _standing(layout: DeploymentPaths) -> Standing | None:
    """None where there is no run yet."""
    file = layout.run / LEDGER_FILE
    if not file.is_file():
        return None
    ledger = Ledger(file, read_only=True)
    try:
        active = read_members(ledger)
        gone = set(forgotten(ledger))
        owing = unconfirmed_erasures(ledger)
    finally:
        ledger.close()
    # Who has yet to confirm that its own folder is erased must be there to be asked.
    done = gone - {row["target"] for row in owing}
    return Standing(frozenset(active), frozenset(done))


def _as_before(layout: DeploymentPaths, nodes: int | None) -> list[str]:
    known = layout.clients()
    if nodes is None and known:
        return known
    return numbered_ids(DEFAULT_NODES if nodes is None else nodes)


def _checked(clients: Sequence[str]) -> list[str]:
    check_ids(clients)
    if any(client.lower() == SUPERLINK for client in clients):
        raise PfedulError(f"A client cannot be called {SUPERLINK}, which is the server's name.")
    return list(dict.fromkeys(clients))
