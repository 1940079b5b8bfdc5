"""The tensor files and ledger rows that a new run begins with."""

from __future__ import annotations

from pfedul.base.tensors import Tensors, read_tensors
from pfedul.client import Workbench
from pfedul.clusters.layout import Clusters
from pfedul.member import member_of
from pfedul.store.ledger import Statement
from pfedul.store.store import INIT_FILE, SHARED_FILE, personal_file
from pfedul.store.tables import client_row, run_rows


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
