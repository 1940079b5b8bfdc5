"""How a run begins, and the checks when it is opened again."""

from __future__ import annotations

import torch
from torch import Tensor

from pfedul.base.tensors import Tensors, read_tensors
from pfedul.clusters.layout import Clusters
from pfedul.data import fingerprint
from pfedul.errors import PfedulError
from pfedul.protocol import Workbench
from pfedul.settings import Settings, settings_digest
from pfedul.store.ledger import Statement
from pfedul.store.paths import (
    AT_NODES,
    INIT_FILE,
    SETTINGS_FILE,
    SHARED_FILE,
    personal_file,
)
from pfedul.store.store import Store
from pfedul.store.tables import client_row, member_of, run_rows


def first_state(bench: Workbench, clusters: Clusters) -> dict[str, Tensors]:
    """The tensor files of a new run; clusters may be formed later."""
    model = bench.build_model()
    shared = read_tensors(model, bench.split.shared)
    files = {INIT_FILE: shared, SHARED_FILE: clusters.everywhere(shared)}
    files |= clusters.files(bench.data)
    if bench.split.personal:
        personal = read_tensors(model, bench.split.personal)
        files |= {personal_file(client): personal for client in bench.data}
    return files


def first_rows(bench: Workbench) -> list[Statement]:
    """The ledger's rows of a new run."""
    members = [member_of(name, parts) for name, parts in bench.data.items()]
    return run_rows() + [client_row(member, 0) for member in members]


def refuse_remote(store: Store) -> None:
    if store.ledger.meta("clients_at") == AT_NODES:
        raise PfedulError(
            f"The clients of {store.path} are on machines of their own; ask for this there, "
            "with 'flwr run' (docs/flower.md)."
        )


def check_same_federation(store: Store, bench: Workbench, clusters: Clusters) -> None:
    """Going on with other data or another model would be another run."""
    active = store.ledger.rows("SELECT * FROM clients WHERE status = 'active' ORDER BY client")
    state = bench.build_model().state_dict()
    shared = {name: state[name] for name in bench.split.shared}
    check_same_tensors(store.read(SHARED_FILE), clusters.everywhere(shared))
    if bench.split.personal and active:
        personal = {name: state[name] for name in bench.split.personal}
        check_same_tensors(store.read(personal_file(active[0]["client"])), personal)
    for row in active:
        held = bench.data.get(row["client"])
        if held is None or fingerprint(held) != row["data_sha256"]:
            raise PfedulError(
                f"The data of client '{row['client']}' are not those that this run was made with; "
                "give the same data, or start another run."
            )


def check_same_tensors(stored: Tensors, wanted: Tensors) -> None:
    for name in sorted(stored.keys() | wanted.keys()):
        same = name in stored and name in wanted
        if not same or _form(stored[name]) != _form(wanted[name]):
            raise PfedulError(
                f"The model is not the one that this run was made with (tensor '{name}'); "
                "give the same model, or start another run."
            )


def _form(tensor: Tensor) -> tuple[torch.Size, torch.dtype]:
    return tensor.shape, tensor.dtype


def check_same_settings(store: Store, stored: Settings) -> None:
    if store.ledger.meta("settings_sha256") != settings_digest(stored):
        raise PfedulError(
            f"{store.path / SETTINGS_FILE} was changed by hand in a way that makes it another "
            "run; put it back, or start another run with --config."
        )
