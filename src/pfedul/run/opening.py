"""How a run is created and opened again, and the checks on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pfedul.base.tensors import Tensors, read_tensors
from pfedul.clusters.layout import Clusters
from pfedul.data.samples import fingerprint
from pfedul.errors import PfedulError
from pfedul.protocol import ClientWork, Workbench
from pfedul.run.assembly import ModelFactory, OwnData, assemble, check_clients, load_data
from pfedul.run.layouts import check_files
from pfedul.run.owncode import (
    code_to_confirm,
    named_again,
    newly_confirmed,
    own_parts,
    refuse_unconfirmed,
)
from pfedul.run.run import Run
from pfedul.settings import (
    Settings,
    from_mapping,
    merge,
    named,
    read_settings,
    settings_digest,
    settings_row,
    write_toml,
)
from pfedul.store.folder import absolute, refuse_unusable, require_run
from pfedul.store.ledger import Statement
from pfedul.store.paths import AT_NODES, INIT_FILE, SETTINGS_FILE, SHARED_FILE, personal_file
from pfedul.store.readonly import ReadOnlyStore
from pfedul.store.store import Store
from pfedul.store.tables import client_row, member_of, read_members, run_rows

RunT = TypeVar("RunT", bound=Run)
Work = Mapping[str, ClientWork]


def create_run(
    kind: type[RunT],
    run: str | Path,
    data: str | OwnData,
    model: str | ModelFactory,
    settings: Mapping[str, Any],
    work: Work,
) -> RunT:
    """A new run in the folder `run`; see `Federation.create`."""
    path = absolute(run)
    refuse_unusable(path)
    names = {"data": named(data), "model": named(model)}
    chosen = from_mapping({**names, **settings}, "Federation.create")
    own_data, own_model = own_parts(chosen, {"data": data, "model": model}, path)
    loaded = load_data(chosen, own_data)
    bench = replace(assemble(chosen, loaded, own_model), work=work)
    check_clients(chosen, bench.data)
    tensors = first_state(bench, Clusters(chosen.clusters))
    rows = [*first_rows(bench), settings_row(chosen)]
    store = Store.create(path, write_toml(chosen), tensors, rows)
    return kind(store, chosen, bench, loaded.warnings)


def open_run(
    kind: type[RunT],
    run: str | Path,
    data: str | OwnData | None,
    model: str | ModelFactory | None,
    later: dict[str, Any],
    work: Work,
    *,
    read_only: bool = False,
) -> RunT:
    """An existing run at its last whole round; see `Federation.open`."""
    path, given = absolute(run), {"data": data, "model": model}
    require_run(path)
    names = named_again(read_settings(path), given)
    later = {**later, **names}
    merge(read_settings(path), later)  # refuses what cannot change, before anything is locked
    store = (ReadOnlyStore if read_only else Store).open(path)
    try:
        refuse_remote(store)
        stored = read_settings(path)  # opening may have finished what a killed process wrote
        settings = merge(stored, later)
        check_same_settings(store, stored)
        refuse_unconfirmed(path, code_to_confirm(store.ledger, settings, given))
        own_data, own_model = own_parts(settings, given, path)
        loaded = load_data(settings, own_data)
        bench = replace(assemble(settings, loaded, own_model), work=work)
        check_same_federation(store, bench, Clusters(settings.clusters))
        if not read_only:
            store.sign_settings(confirmed=newly_confirmed(store.ledger, settings, names))
            if settings != stored:
                store.write_settings(write_toml(settings))
        return kind(store, settings, bench, loaded.warnings)
    except BaseException:
        store.close()
        raise


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
    """Refuse to continue a run with other data or another model."""
    members = read_members(store.ledger)
    check_files(store, bench, clusters, [*members])
    for client, member in members.items():
        data = bench.data.get(client)
        if data is None or fingerprint(data) != member.data_sha256:
            raise PfedulError(
                f"The data of client '{client}' are not those that this run was made with; "
                "give the same data, or start another run."
            )


def check_same_settings(store: Store, stored: Settings) -> None:
    if store.ledger.meta("settings_sha256") != settings_digest(stored):
        raise PfedulError(
            f"{store.path / SETTINGS_FILE} was changed by hand in a way that makes it another "
            "run; put it back, or start another run with --config."
        )
