"""Removal requests in the ledger: asked for, pending, honoured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pfedul.base.text import counted
from pfedul.errors import PfedulError
from pfedul.store.ledger import Ledger, Statement, insert
from pfedul.store.tables import now

PENDING, DONE = "pending", "done"

_REPAIRING = "repairing"
"""Of older versions, whose repair rounds came after the removal: it is done."""

LEVEL, CLIENT_LEVEL = "level", "client"
"""The granularity of a request, among its options: whole clients, so far."""

NOT_CONFIRMED = "erasure at the client not confirmed"

CLIENT_TABLES = (
    *("clients", "replies", "refusals", "evaluations", "preservation", "recalibrations"),
    *("nodes", "audit_clients"),
)
"""Every table with rows about single clients."""


@dataclass(frozen=True)
class Request:
    """A removal asked for. While it is pending no tensor has been touched."""

    number: int
    targets: tuple[str, ...]
    options: dict[str, Any]
    asked_at: str
    status: str
    outcome: dict[str, Any] | None

    @property
    def level(self) -> str:
        """What is to be forgotten: so far only whole clients (not samples or classes)."""
        return str(self.options.get(LEVEL, CLIENT_LEVEL))


def read_requests(ledger: Ledger) -> list[Request]:
    """All requests, oldest first."""
    return [_read(row) for row in ledger.rows("SELECT * FROM requests ORDER BY request")]


def _read(row: Mapping[str, Any]) -> Request:
    status, options = row["status"], json.loads(row["options"])
    outcome = json.loads(row["outcome"] or "null")
    if status == _REPAIRING:
        left = counted(options["repair_rounds"] - row["repaired"], "repair round")
        note = f"an older version ended before {left} of this removal; not played since"
        status, outcome = DONE, {**outcome, "notes": [*outcome["notes"], note]}
    targets = tuple(json.loads(row["targets"]))
    return Request(row["request"], targets, options, row["asked_at"], status, outcome)


def unfinished(ledger: Ledger) -> Request | None:
    """The request that was begun and not finished, if there is one."""
    return next((item for item in read_requests(ledger) if item.status != DONE), None)


def forgotten(ledger: Ledger) -> dict[str, Request]:
    """Clients that were forgotten -> the request that did it."""
    honoured = [item for item in read_requests(ledger) if item.status != PENDING]
    return {target: item for item in honoured for target in item.targets}


def file_request(ledger: Ledger, targets: Sequence[str], options: Mapping[str, Any]) -> Request:
    """Write a request into the ledger before anything is done, or resume the pending one."""
    begun = unfinished(ledger)
    if begun is not None and set(begun.targets) != set(targets):
        raise PfedulError(
            f"Request {begun.number} to forget {', '.join(begun.targets)} is not finished; "
            "finish it first by asking for it again."
        )
    if begun is None:
        number = 1 + (ledger.value("SELECT MAX(request) FROM requests") or 0)
        begun = Request(number, tuple(targets), {}, now(), PENDING, None)
    if begun.status == PENDING:
        ledger.write([_row(begun, options)])
    return begun


def _row(request: Request, options: Mapping[str, Any]) -> Statement:
    return insert(
        "requests",
        request=request.number,
        targets=json.dumps(request.targets),
        options=json.dumps({**options, LEVEL: CLIENT_LEVEL}),
        asked_at=request.asked_at,
        status=PENDING,
    )


def read_request(ledger: Ledger, number: int) -> Request:
    """One request by its number."""
    return next(item for item in read_requests(ledger) if item.number == number)


def accuracies(ledger: Ledger, request: Request) -> tuple[dict[str, float], dict[str, float]]:
    """Accuracies before and after a removal, of clients that are still in the run."""
    rows = ledger.rows("SELECT * FROM preservation WHERE request = ?", request.number)
    before = {row["client"]: row["accuracy_before"] for row in rows}
    return before, {row["client"]: row["accuracy_after"] for row in rows}


def erased_at_client(ledger: Ledger, request: Request) -> dict[str, str]:
    """For targets that kept their personal tensors themselves: whether these are erased."""
    sql = "SELECT target, confirmed_at FROM erasures WHERE request = ? ORDER BY target"
    confirmed = ledger.pairs(sql, request.number)
    return {who: f"confirmed {at}" if at else NOT_CONFIRMED for who, at in confirmed.items()}


def not_recalibrated(ledger: Ledger, request: Request) -> list[str]:
    """Who has yet to recalibrate for this request."""
    sql = "SELECT client FROM recalibrations WHERE request = ? AND done_at IS NULL ORDER BY client"
    return ledger.column(sql, request.number)


def withdraw(ledger: Ledger, request: Request) -> None:
    """Delete a request for which nothing was done."""
    sql = "DELETE FROM requests WHERE request = ? AND status = ?"
    ledger.write([(sql, (request.number, PENDING))])


def erase_rows(targets: Sequence[str]) -> list[Statement]:
    """Statements that leave no row of these clients behind."""
    return [
        (f"DELETE FROM {table} WHERE client = ?", (target,))
        for table in CLIENT_TABLES
        for target in targets
    ]


def count_rows(ledger: Ledger, targets: Sequence[str]) -> int:
    """How many rows are about these clients."""
    return sum(
        ledger.value(f"SELECT COUNT(*) FROM {table} WHERE client = ?", target)
        for table in CLIENT_TABLES
        for target in targets
    )


_OF_SINGLE_CLIENTS = {"before", "after", "not_recalibrated", "undefined", "erased_at_client"}


def finish_row(request: Request, repaired: int, outcome: dict[str, Any]) -> Statement:
    """The request honoured; figures of single clients are other rows, which can be erased."""
    kept = {key: value for key, value in outcome.items() if key not in _OF_SINGLE_CLIENTS}
    sql = "UPDATE requests SET status = ?, repaired = ?, outcome = ? WHERE request = ?"
    return sql, (DONE, repaired, json.dumps(kept), request.number)


def preservation_rows(
    request: Request, before: Mapping[str, float], after: Mapping[str, float]
) -> list[Statement]:
    """Each remaining client's accuracy before and after."""
    return [
        insert(
            "preservation",
            request=request.number,
            client=client,
            accuracy_before=before[client],
            accuracy_after=after[client],
        )
        for client in before
    ]


def preserved_row(commit: int) -> Statement:
    """Note that the last request's accuracies were measured on the tensors of this commit."""
    return insert("meta", key=PRESERVED, value=str(commit))


PRESERVED = "preserved_commit"


def recalibration_rows(
    request: Request, clients: Sequence[str], missing: Sequence[str]
) -> list[Statement]:
    """Who has recalibrated, and who has yet to."""
    done = {client: None if client in missing else now() for client in clients}
    return [
        insert("recalibrations", request=request.number, client=client, done_at=at)
        for client, at in done.items()
    ]
