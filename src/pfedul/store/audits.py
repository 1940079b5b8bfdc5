"""Audits in the ledger: what was measured, in numbers; figures of single clients in rows apart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pfedul.store.ledger import Ledger, Statement, insert

REHEARSAL, AFTER_THE_FACT = "rehearsal", "audit"


@dataclass(frozen=True)
class Audit:
    """One audit. `clients` has those who are still with the run."""

    number: int
    kind: str
    targets: tuple[str, ...]
    made_at: str
    evidence: dict[str, Any]
    clients: dict[str, dict[str, Any]]


def read_audits(ledger: Ledger) -> list[Audit]:
    """All audits, oldest first."""
    return [
        _audit(row, _clients(ledger, row["audit"]))
        for row in ledger.rows("SELECT * FROM audits ORDER BY audit")
    ]


def _audit(row: Mapping[str, Any], clients: dict[str, dict[str, Any]]) -> Audit:
    """Who was away is written with their figures, and put back into the command from there."""
    evidence = json.loads(row["evidence"])
    away = [f"--away {client}" for client, figures in clients.items() if figures.get("away")]
    evidence["command"] = " ".join([evidence["command"], *away])
    targets = tuple(json.loads(row["targets"]))
    return Audit(row["audit"], row["kind"], targets, row["made_at"], evidence, clients)


def _clients(ledger: Ledger, audit: int) -> dict[str, dict[str, Any]]:
    sql = "SELECT client, figures FROM audit_clients WHERE audit = ? ORDER BY client"
    return {row["client"]: json.loads(row["figures"]) for row in ledger.rows(sql, audit)}


def write_audit(
    ledger: Ledger, evidence: Mapping[str, Any], clients: Mapping[str, Mapping[str, Any]]
) -> Audit:
    """Write an audit down; returns it as it will be read."""
    number = 1 + (ledger.value("SELECT MAX(audit) FROM audits") or 0)
    ledger.write([_row(number, evidence), *_client_rows(number, clients)])
    return next(audit for audit in read_audits(ledger) if audit.number == number)


def _row(number: int, evidence: Mapping[str, Any]) -> Statement:
    return insert(
        "audits",
        audit=number,
        kind=evidence["kind"],
        targets=json.dumps(evidence["targets"]),
        made_at=evidence["made_at"],
        evidence=json.dumps(evidence, allow_nan=False),
    )


def _client_rows(number: int, clients: Mapping[str, Mapping[str, Any]]) -> list[Statement]:
    return [
        insert(
            "audit_clients",
            audit=number,
            client=client,
            figures=json.dumps(figures, allow_nan=False),
        )
        for client, figures in clients.items()
    ]
