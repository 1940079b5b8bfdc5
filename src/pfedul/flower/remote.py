"""Creates or opens a federation whose clients are Flower nodes.

The run folder, the rounds and the removals are those of every other engine.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from pfedul.base.tensors import read_tensors
from pfedul.data.checks import check_ids
from pfedul.engine.flower.grid import FlowerEngine, Traffic
from pfedul.errors import PfedulError
from pfedul.federation import Federation
from pfedul.flower.identity import FlowerServer, Introduced, ask_who, believed, online_nodes
from pfedul.protocol import Task, Workbench
from pfedul.run.assembly import assemble_at_server, check_clients
from pfedul.run.layouts import check_same_tensors
from pfedul.run.opening import check_same_settings
from pfedul.settings import (
    OWN,
    Settings,
    changeable,
    fixed,
    from_mapping,
    merge,
    named,
    read_settings,
    read_toml,
    settings_row,
    write_toml,
)
from pfedul.store.folder import refuse_unusable
from pfedul.store.ledger import Statement
from pfedul.store.nodes import (
    binding_rows,
    bound_keys,
    data_digest,
    read_inputs,
    run_facts,
    traffic_row,
)
from pfedul.store.paths import AT_NODES, INIT_FILE, LEDGER_FILE, SHARED_FILE
from pfedul.store.store import Store
from pfedul.store.tables import client_row, run_rows
from pfedul.unlearn.methods import with_records_of_methods

WAIT_SECONDS = 1.0


def open_or_create(server: FlowerServer, asked: dict[str, Any]) -> Federation:
    """The federation of the run folder; a new one with the nodes that are there."""
    path = server.options.path
    if (path / LEDGER_FILE).is_file():
        return open_remote(server, path, asked)
    if server.options.action != "train":
        raise PfedulError(f'There is no run at {path} yet; begin with action="train".')
    return create_remote(server, path, asked)


def open_remote(server: FlowerServer, path: Path, asked: dict[str, Any]) -> Federation:
    """An existing run, at its last whole round."""
    stored = read_settings(path)
    if server.model is not None:  # what is given in Python wins over names in the config
        asked = {key: asked[key] for key in asked if key not in {"data", "model"}}
    merge(stored, asked)  # refuses what cannot change; how many rounds is for `train` to say
    store = Store.open(path)
    try:
        stored = read_settings(path)  # opening may have finished what a killed process wrote
        settings = merge(stored, {k: v for k, v in changeable(asked).items() if k != "rounds"})
        if store.ledger.meta("clients_at") != AT_NODES:
            raise PfedulError(f"The clients of {path} are here; use 'pfedul train {path}'.")
        check_same_settings(store, stored)
        _check_commits(settings)
        bench = assemble_at_server(settings, *read_inputs(store.ledger), server.model)
        state = bench.build_model().state_dict()
        check_same_tensors(store.read(SHARED_FILE), {n: state[n] for n in bench.split.shared})
        store.sign_settings()
        if settings != stored:
            store.write_settings(write_toml(settings))
        return Federation(store, settings, bench, engine=_engine(server, store, settings, bench))
    except BaseException:
        store.close()
        raise


def create_remote(server: FlowerServer, path: Path, asked: dict[str, Any]) -> Federation:
    """A new run with the first nodes that introduce themselves."""
    refuse_unusable(path)
    settings = _first_settings(server, asked)
    found, traffic = _gather(server, settings)
    shape, classes = _agree(found)
    bench = assemble_at_server(settings, shape, classes, server.model)
    check_clients(settings, [node.member.client for node in found])
    if settings.clusters > 1:
        raise PfedulError("Clusters are for clients on this machine; leave --clusters out here.")
    shared = read_tensors(bench.build_model(), bench.split.shared)
    rows = [*run_rows(), settings_row(settings), *(client_row(node.member, 0) for node in found)]
    rows += [row for node in found for row in binding_rows(node.member.client, node.key)]
    rows += [*traffic, *run_facts(shape, classes)]
    store = Store.create(path, write_toml(settings), {INIT_FILE: shared, SHARED_FILE: shared}, rows)
    return Federation(store, settings, bench, engine=_engine(server, store, settings, bench))


def _engine(
    server: FlowerServer, store: Store, settings: Settings, bench: Workbench
) -> FlowerEngine:
    """The engine of an open run: its clients are the nodes that their keys say they are."""

    def nodes() -> Mapping[str, int]:
        online, bound = online_nodes(server.grid), bound_keys(store.ledger)
        return {client: online[key] for client, key in bound.items() if key in online}

    def note(task: Task, clients: int, traffic: Traffic) -> None:
        row = traffic_row(task.action, task.number, clients, asdict(traffic))
        store.ledger.write([row])

    return FlowerEngine(
        server.grid,
        str(store.ledger.meta("federation")),
        fixed(settings),
        cache(lambda: read_tensors(bench.build_model(), bench.split.personal)),
        lambda client: data_digest(store.ledger, client),
        nodes,
        server.options.reply_deadline,
        note,
    )


def _first_settings(server: FlowerServer, asked: dict[str, Any]) -> Settings:
    config = server.options.config
    known = {**(read_toml(Path(config).expanduser()) if config else {}), **asked}
    if server.options.nodes:
        known.setdefault("clients", server.options.nodes)
    if server.model is not None:
        known = {**known, "model": named(server.model), "data": OWN}
    settings = from_mapping(with_records_of_methods(known), config or "the run config")
    _check_commits(settings)
    if settings.clients is None:
        raise PfedulError("Say how many clients a new run is to have: -c 'clients=3'.")
    return settings


def _check_commits(settings: Settings) -> None:
    """Clients keep the tensors of one commit, not of several."""
    if settings.checkpoint_every != 1:
        raise PfedulError("On Flower every round is committed; set checkpoint_every to 1.")


def _gather(server: FlowerServer, settings: Settings) -> tuple[list[Introduced], list[Statement]]:
    """Wait until as many nodes as there will be clients have introduced themselves."""
    wanted = settings.clients or 1
    found: dict[str, Introduced] = {}
    asked: set[str] = set()
    refused: list[str] = []
    rows: list[Statement] = []
    ends = time.monotonic() + server.options.nodes_deadline
    while True:
        late = time.monotonic() >= ends  # said before the last look: asking takes its time
        new = {key: node for key, node in online_nodes(server.grid).items() if key not in asked}
        asked |= set(new)
        claims, traffic = ask_who(server, settings, new)
        rows += traffic
        refused += _sort_claims(server, claims, found)
        refused += _drop_unbelievable(server, found, settings)
        if len(found) >= wanted:
            chosen = [found[client] for client in sorted(found)[:wanted]]
            check_ids([node.member.client for node in chosen])
            return chosen, rows
        if late:
            raise PfedulError(_too_few(server, len(found), wanted, refused))
        time.sleep(WAIT_SECONDS)


def _sort_claims(
    server: FlowerServer, claims: Mapping[str, Introduced | str], found: dict[str, Introduced]
) -> list[str]:
    """Add the nodes that can be clients to `found`; returns why others cannot."""
    refused = []
    for key, claim in claims.items():
        if isinstance(claim, Introduced) and claim.member.client not in found:
            found[claim.member.client] = claim
            continue
        taken = "its name is another node's"
        refused.append(taken if isinstance(claim, Introduced) else claim)
        server.tell(f"The node {key[:12]} gets nothing: {refused[-1]}.")
    return refused


def _drop_unbelievable(
    server: FlowerServer, found: dict[str, Introduced], settings: Settings
) -> list[str]:
    """Take out nodes whose numbers of samples are far from all others'; returns why."""
    most = settings.max_samples
    counts = {name: node.member.train_samples for name, node in found.items()}
    claims = {
        name: believed(node, [n for other, n in counts.items() if other != name], most)
        for name, node in found.items()
    }
    refused = {name: claim for name, claim in claims.items() if isinstance(claim, str)}
    for client, reason in refused.items():
        server.tell(f"The node {found.pop(client).key[:12]} gets nothing: {reason}.")
    return list(refused.values())


def _too_few(server: FlowerServer, found: int, wanted: int, refused: Sequence[str]) -> str:
    why = f" (refused: {refused[0]})" if refused else ""
    return (
        f"{found} of {wanted} clients came within {server.options.nodes_deadline:g} s{why}; "
        "start the missing nodes, or give a longer nodes-deadline or fewer clients."
    )


def _agree(found: Sequence[Introduced]) -> tuple[tuple[int, ...], int]:
    """One shape of inputs for all, and as many classes as the client with the most has."""
    first = found[0]
    for node in found:
        if node.shape != first.shape:
            raise PfedulError(
                f"Inputs must have one shape, but they are {first.shape} at {first.member.client} "
                f"and {node.shape} at {node.member.client}; make them alike."
            )
    return first.shape, max(node.classes for node in found)


def wait_for_nodes(server: FlowerServer, federation: Federation) -> list[str]:
    """Wait for the nodes of all clients; returns who is still missing at the deadline."""
    ends = time.monotonic() + server.options.nodes_deadline
    while True:
        online, bound = online_nodes(server.grid), bound_keys(federation.store.ledger)
        missing = [name for name in federation.clients if bound.get(name) not in online]
        if not missing or time.monotonic() >= ends:
            return missing
        time.sleep(WAIT_SECONDS)
