"""The files of a deployment, below `RUN/deployment`, and the clients that have a node."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from pfedul.data.checks import check_ids, numbered_ids
from pfedul.errors import PfedulError
from pfedul.store.folder import own_errors, take_lock
from pfedul.store.ledger import Ledger
from pfedul.store.nodes import unconfirmed_erasures
from pfedul.store.paths import DEPLOYMENT, LEDGER_FILE, LOCK_FILE, check_tree
from pfedul.store.requests import forgotten
from pfedul.store.tables import read_members

PRIVATE, PUBLIC, EXECUTABLE = 0o600, 0o644, 0o755
SUPERLINK = "superlink"
"""Name of the server's process; every other process bears the name of its client."""


def write(path: Path, data: bytes, mode: int = PUBLIC) -> None:
    """Write a file; nobody sees it half-written or with another mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.chmod(draft, mode)  # whatever the umask is
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    os.replace(draft, path)


class DeploymentPaths:
    """The paths of one deployment; all of them are absolute.

    `home` is Flower's home for the command line, `script` that command line, bound to this
    deployment. Names of clients may come from somebody else's ledger, so paths are made of
    allowed names alone.
    """

    def __init__(self, run: Path) -> None:
        self.run = run
        self.folder = run / DEPLOYMENT
        self.authority = self.folder / "certificates/ca.pem"
        self.authority_key = self.folder / "certificates/ca.key"
        self.server_certificate = self.folder / "certificates/server.pem"
        self.server_key = self.folder / "certificates/server.key"
        self.keys = self.folder / "keys"
        self.database = self.folder / "superlink/state.db"
        self.home = self.folder / "home"
        self.app = self.folder / "app"
        self.script = self.folder / "flwr"
        self.record = self.folder / "processes.json"

    def key(self, client: str) -> Path:
        return self.keys / _checked_name(client)

    def public_key(self, client: str) -> Path:
        return self.keys / f"{_checked_name(client)}.pub"

    def node(self, client: str) -> Path:
        """The client's own folder: what it holds never leaves its node."""
        return self.folder / "nodes" / _checked_name(client)

    def process_home(self, name: str) -> Path:
        """Flower's home for a process; no two share one."""
        return self.folder / "homes" / _checked_name(name)

    def log(self, name: str) -> Path:
        return self.folder / "logs" / f"{_checked_name(name)}.log"

    def clients(self) -> list[str]:
        """The clients that have a node here: those with a key."""
        return sorted(file.name.removesuffix(".pub") for file in self.keys.glob("*.pub"))


def _checked_name(name: str) -> str:
    check_ids([name])
    return name


def new_layout(run: Path) -> DeploymentPaths:
    """The layout for a deployment that may not exist yet; refuses places that cannot hold one."""
    if run.exists() and not run.is_dir():
        raise PfedulError(f"{run} is a file, not a run folder; give another path.")
    ours = (run / LEDGER_FILE).is_file() or (run / DEPLOYMENT).is_dir()
    if run.is_dir() and any(run.iterdir()) and not ours:
        raise PfedulError(f"{run} is not empty and not a run; give another path.")
    return _without_links(run)


def existing_layout(run: Path) -> DeploymentPaths:
    """The layout of a deployment that is there."""
    layout = _without_links(run)
    if not layout.record.is_file():
        raise PfedulError(f"There is no deployment in {run}; start one with 'pfedul up {run}'.")
    return layout


def refuse_foreign(layout: DeploymentPaths) -> None:
    """Refuse keys, certificates and a database that no record of ours belongs to."""
    if any(entry.name != LOCK_FILE and entry.name[0] != "." for entry in layout.folder.iterdir()):
        raise PfedulError(
            f"{layout.folder} holds a deployment without a record of yours; nothing was touched: "
            "remove that folder to start a new one."
        )


def _without_links(run: Path) -> DeploymentPaths:
    layout = DeploymentPaths(Path(os.path.abspath(run)))
    check_tree(layout.run)
    check_tree(layout.folder)
    return layout


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
    if (layout.run / LEDGER_FILE).is_file():
        return _of_run(layout, nodes)
    if nodes is None and layout.clients():
        return layout.clients()
    return numbered_ids(nodes or DEFAULT_NODES)


def _of_run(layout: DeploymentPaths, nodes: int | None) -> list[str]:
    """The clients of the run, and others that have a node: newcomers, and those yet to erase."""
    with closing(Ledger(layout.run / LEDGER_FILE, read_only=True)) as ledger:
        active, gone = set(read_members(ledger)), set(forgotten(ledger))
        owing = {row["target"] for row in unconfirmed_erasures(ledger)}
    if nodes not in {None, len(active)}:
        raise PfedulError(
            f"The run {layout.run} has {len(active)} active clients, not {nodes}; "
            "leave out --nodes, or name nodes with --clients."
        )
    # Who has yet to confirm that its own folder is erased must be there to be asked.
    wanted = active | (set(layout.clients()) - (gone - owing))
    if not wanted:
        raise PfedulError(f"The run {layout.run} has no active client; name some with --clients.")
    return sorted(wanted)


def _checked(clients: Sequence[str]) -> list[str]:
    check_ids(clients)
    if any(client.lower() == SUPERLINK for client in clients):
        raise PfedulError(f"A client cannot be called {SUPERLINK}, which is the server's name.")
    return list(dict.fromkeys(clients))
