"""Whose nodes run: as asked for, as the run says, or as before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pfedul.data.checks import check_ids, numbered_ids
from pfedul.errors import PfedulError
from pfedul.flower.deployment.layout import SUPERLINK, Layout
from pfedul.store.ledger import Ledger
from pfedul.store.paths import LEDGER_FILE
from pfedul.store.requests import forgotten

DEFAULT_NODES = 3


def node_names(layout: Layout, nodes: int | None, clients: Sequence[str]) -> list[str]:
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


def _of_run(layout: Layout, standing: Standing, nodes: int | None) -> list[str]:
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


def _standing(layout: Layout) -> Standing | None:
    """None where there is no run yet."""
    file = layout.run / LEDGER_FILE
    if not file.is_file():
        return None
    ledger = Ledger(file, read_only=True)
    try:
        active = ledger.rows("SELECT client FROM clients WHERE status = 'active'")
        gone = set(forgotten(ledger))
        owing = ledger.rows("SELECT target FROM erasures WHERE confirmed_at IS NULL")
    finally:
        ledger.close()
    # Who has yet to confirm that its own folder is erased must be there to be asked.
    done = gone - {row["target"] for row in owing}
    return Standing(frozenset(row["client"] for row in active), frozenset(done))


def _as_before(layout: Layout, nodes: int | None) -> list[str]:
    known = layout.clients()
    if nodes is None and known:
        return known
    return numbered_ids(DEFAULT_NODES if nodes is None else nodes)


def _checked(clients: Sequence[str]) -> list[str]:
    check_ids(clients)
    if any(client.lower() == SUPERLINK for client in clients):
        raise PfedulError(f"A client cannot be called {SUPERLINK}, which is the server's name.")
    return list(dict.fromkeys(clients))
