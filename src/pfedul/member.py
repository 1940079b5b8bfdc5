"""What the server knows of a client: how much data it has, and a hash of them."""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.data import ClientData, fingerprint
from pfedul.store.ledger import Ledger


@dataclass(frozen=True)
class Member:
    """A client as the ledger knows it; its data themselves may be elsewhere."""

    client: str
    train_samples: int
    test_samples: int
    data_sha256: str


def member_of(client: str, data: ClientData) -> Member:
    """A client whose data are at hand."""
    return Member(client, len(data.train), len(data.test), fingerprint(data))


def read_members(ledger: Ledger) -> dict[str, Member]:
    """Everybody who takes part."""
    columns = "client, train_samples, test_samples, data_sha256"
    rows = ledger.rows(f"SELECT {columns} FROM clients WHERE status = 'active' ORDER BY client")
    return {row["client"]: Member(**row) for row in rows}
