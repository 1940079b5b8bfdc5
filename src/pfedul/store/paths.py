"""The names of files and folders in a run folder. See docs/run-folder.md."""

from __future__ import annotations

SETTINGS_FILE = "federation.toml"
LEDGER_FILE = "ledger.db"
INIT_FILE = "init.safetensors"
SHARED_FILE = "shared.safetensors"
LOCK_FILE = "lock"
STAGING = "staging"
ORACLES = "oracles"
REHEARSAL = "rehearsal"
"""Federations that audits train; see store/copies.py."""
UNLEARNING = "unlearning"
"""Notes of a method that is at work; see unlearn/notebook.py."""
COMPARISONS = "comparisons"
"""Branches and results of `pfedul compare`; see compare/folder.py."""
REPORTS = "reports"
"""Pages that speak of clients who were there when they were written."""

CLIENTS = "clients"
DEPLOYMENT = "deployment"
"""What `pfedul up` keeps in the run folder; it may be there before the run is."""

FISHER_TOTAL_FILE = "records/fisher-total.safetensors"
CHECKPOINTS = "records/clusters"
FISHER_RETAINED_FILE = "records/fisher-retained.safetensors"


def personal_file(client: str) -> str:
    """Where a client's personal tensors are, below the run folder."""
    return f"{CLIENTS}/{client}/personal.safetensors"


def held_file(client: str) -> str:
    """Where the hash is of personal tensors that a client keeps itself, below the run folder."""
    return f"{CLIENTS}/{client}/held.safetensors"


def record_file(kind: str, client: str) -> str:
    """Where a record of one client is, below the run folder."""
    return f"records/{kind}/{client}.safetensors"


def fisher_file(client: str) -> str:
    """Where a client's Fisher record is, below the run folder."""
    return record_file("fisher", client)


def cluster_file(client: str) -> str:
    """Where it is which cluster a client is in, below the run folder."""
    return f"{CLIENTS}/{client}/cluster.safetensors"


def checkpoint_file(cluster: int, number: int) -> str:
    """Where a cluster's shared tensors are as they were before a round, below the run folder."""
    return f"{CHECKPOINTS}/{cluster}/before-{number}.safetensors"


AT_NODES = "nodes"
"""The value of the ledger's fact `clients_at` when clients are Flower nodes."""
