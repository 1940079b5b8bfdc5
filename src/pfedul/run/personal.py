"""Where personal tensors are: in the run folder, or with the clients themselves.

On this machine the run folder holds them, one file for each client. Clients on
their own machines keep theirs; the run folder then has their SHA-256, which
is committed, rolled back and erased in the same way, so server and clients
agree on which tensors are current even if one of them is killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pfedul.base.tensorfile import as_hash, as_tensors, read_file
from pfedul.base.tensors import Tensors, read_tensors
from pfedul.protocol import Reply, Workbench
from pfedul.store.ledger import Statement
from pfedul.store.nodes import barring_rows
from pfedul.store.paths import held_file, inside, personal_file
from pfedul.store.store import Store


class InRunFolder:
    """Personal tensors as files of the run folder; `WithClients` has the same interface."""

    at_clients = False

    def __init__(self, store: Store, bench: Workbench) -> None:
        self._store, self._bench = store, bench

    def layout(self, clients: Sequence[str]) -> Tensors:
        """What the personal tensors of a reply must look like."""
        return self._store.read(personal_file(clients[0])) if self._bench.split.personal else {}

    def locate(self, client: str) -> Path | None:
        """The file that an engine needs before a client can work; None if there is none."""
        if not self._bench.split.personal:
            return None
        return self._store.locate(personal_file(client))

    def stage(self, reply: Reply) -> None:
        """Add the personal tensors of a reply to the current unit of work."""
        if reply.personal:
            self._store.stage(personal_file(reply.client), reply.personal)

    def stage_first(self, client: str) -> None:
        """The same for a client that joins."""
        names = self._bench.split.personal
        if names:
            tensors = read_tensors(self._bench.build_model(), names)
            self._store.stage(personal_file(client), tensors)

    def leaving_rows(self, request: int, targets: Sequence[str]) -> list[Statement]:  # noqa: ARG002
        """Further ledger rows about the targets for the commit of a removal."""
        return []


class WithClients:
    """Personal tensors that never leave their client; the run folder has only their hashes."""

    at_clients = True

    def __init__(self, store: Store) -> None:
        self._store = store

    def layout(self, clients: Sequence[str]) -> Tensors:  # noqa: ARG002
        return {}

    def locate(self, client: str) -> Path | None:
        name = held_file(client)
        return self._store.locate(name) if self._store.has(name) else None

    def stage(self, reply: Reply) -> None:
        if reply.held is not None:
            self._store.stage(held_file(reply.client), as_tensors(reply.held))

    def stage_first(self, client: str) -> None:
        """Nothing to do: the client starts with the initial tensors that it is sent."""

    def leaving_rows(self, request: int, targets: Sequence[str]) -> list[Statement]:
        """Bar the targets' nodes, and wait for them to confirm that they erased their folders."""
        held = {target: self._held_by(target) for target in targets}
        return barring_rows(self._store.ledger, request, held)

    def _held_by(self, client: str) -> str | None:
        """The hash of what a client holds, still on disk when its removal is about to delete it."""
        file = inside(self._store.path, held_file(client))
        return as_hash(read_file(file)) if file.is_file() else None
