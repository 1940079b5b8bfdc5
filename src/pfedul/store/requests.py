"""Removal requests in the ledger: asked for, pending, honoured."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pfedul.base.clock import now
from pfedul.base.text import counted
from pfedul.data.checks import check_ids
from pfedul.errors import PfedulError
from pfedul.store.chain import ERASED, REQUEST, Attestation
from pfedul.store.ledger import Ledger, Statement, insert
from pfedul.store.soundness import content_of, json_object

PENDING, DONE, REFUSED, FAILED = "pending", "done", "refused", "failed"
"""A request that was refused, or whose method failed, stays in the ledger as such."""

_REPAIRING = "repairing"
"""Of older versions, whose repair rounds came after the removal: it is done."""

LEVEL, CLIENT_LEVEL = "level", "client"
"""The granularity of a request, among its options: whole clients, so far."""

ASKED = "asked"
"""Who asked for it, on what ground, and by when it is due, among its options."""

NOT_CONFIRMED = "erasure at the client not confirmed"

SIGNED = "signed"
"""Of a receipt: whether the node signed it with the key that it is known by. Of who asked: the
request that a node signed."""


@dataclass(frozen=True)
class Request:
    """A removal asked for. While it is pending no tensor has been touched.

    `outcome` is that of a request that is done, `ending` says of one that was refused or has
    failed why and when (`reason`, `finished_at`).
    """

    number: int
    targets: tuple[str, ...]
    options: dict[str, Any]
    asked_at: str
    status: str
    outcome: dict[str, Any] | None = None
    ending: dict[str, str] | None = None

    @property
    def level(self) -> str:
        """What is to be forgotten: so far only whole clients (not samples or classes)."""
        return str(self.options.get(LEVEL, CLIENT_LEVEL))

    @property
    def asked(self) -> dict[str, Any]:
        """Who asked for it (`by`), on what `ground`, and when it is `due`; as far as known."""
        kept = self.options.get(ASKED, {})
        return {name: value for name, value in kept.items() if name != SIGNED}

    @property
    def signed(self) -> dict[str, Any] | None:
        """The request as the client's own node wrote and signed it, if it did."""
        words: dict[str, Any] | None = self.options.get(ASKED, {}).get(SIGNED)
        return words

    @property
    def open(self) -> bool:
        """Whether it has yet to be honoured."""
        return self.status == PENDING


def read_requests(ledger: Ledger) -> list[Request]:
    """All requests, oldest first."""
    rows = ledger.rows("SELECT * FROM requests ORDER BY request")
    with content_of(ledger.path):
        return [_read(row) for row in rows]


def _read(row: Mapping[str, Any]) -> Request:
    status, options = row["status"], json_object(row["options"])
    outcome = json_object(row["outcome"]) if row["outcome"] else None
    if status == _REPAIRING:
        left = counted(options["repair_rounds"] - row["repaired"], "repair round")
        note = f"an older version ended before {left} of this removal; not played since"
        outcome = outcome or {}
        status, outcome = DONE, {**outcome, "notes": [*outcome["notes"], note]}
    if status == DONE and outcome is None:
        raise ValueError("a request that is done has no outcome")
    result, ending = (None, outcome) if status in {REFUSED, FAILED} else (outcome, None)
    targets = tuple(json.loads(row["targets"]))
    check_ids(targets)
    return Request(row["request"], targets, options, row["asked_at"], status, result, ending)


def unfinished(ledger: Ledger) -> Request | None:
    """The request that was begun and not finished, if there is one."""
    return next((item for item in read_requests(ledger) if item.open), None)


def forgotten(ledger: Ledger) -> dict[str, Request]:
    """Clients that were forgotten -> the request that did it."""
    honoured = [item for item in read_requests(ledger) if item.status == DONE]
    return {target: item for item in honoured for target in item.targets}


def already_done(
    ledger: Ledger, targets: Sequence[str], clients: Collection[str]
) -> Request | None:
    """The request that forgot exactly these targets, if none of them has come back since."""
    done = forgotten(ledger)
    if not targets or any(target in clients or target not in done for target in targets):
        return None
    request = done[targets[0]]
    return request if set(request.targets) == set(targets) else None


def file_request(
    ledger: Ledger,
    targets: Sequence[str],
    options: Mapping[str, Any],
    asked: Mapping[str, Any],
) -> Request:
    """Write a request into the ledger before anything is done, or resume the pending one.

    `asked` says who asks for it, and why; a pending request keeps what it was made with.
    """
    begun = unfinished(ledger)
    if begun is not None and set(begun.targets) != set(targets):
        raise PfedulError(
            f"Request {begun.number} to forget {', '.join(begun.targets)} is not finished; "
            "finish it first by asking for it again."
        )
    new = _new_request(ledger, targets, options, asked)
    if begun is not None:
        kept = {**new.options, ASKED: begun.options.get(ASKED) or dict(asked)}
        new = replace(begun, options=kept)
    ledger.write([_row(new), request_entry(new.number, PENDING)])
    return new


def refuse_request(
    ledger: Ledger,
    targets: Sequence[str],
    options: Mapping[str, Any],
    asked: Mapping[str, Any],
    reason: str,
) -> None:
    """Write a request that is refused at once; the same one again is not written again."""
    new = _new_request(ledger, targets, options, asked)
    for item in read_requests(ledger):
        known = item.targets, item.options.get(ASKED), (item.ending or {}).get("reason")
        if item.status == REFUSED and known == (new.targets, dict(asked), reason):
            return
    ledger.write([_row(new), *_ending_rows(new, REFUSED, reason)])


def _new_request(
    ledger: Ledger, targets: Sequence[str], options: Mapping[str, Any], asked: Mapping[str, Any]
) -> Request:
    number = 1 + (ledger.value("SELECT MAX(request) FROM requests") or 0)
    kept = {**options, LEVEL: CLIENT_LEVEL, ASKED: dict(asked)}
    return Request(number, tuple(targets), kept, now(), PENDING)


def _row(request: Request) -> Statement:
    return insert(
        "requests",
        request=request.number,
        targets=json.dumps(request.targets),
        options=json.dumps(request.options),
        asked_at=request.asked_at,
        status=PENDING,
    )


def request_entry(number: int, status: str, **facts: Any) -> Attestation:
    """An entry of the chain about a request, as its row is by then."""
    return Attestation(REQUEST, "requests", (number,), {"status": status, **facts})


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
    sql = "SELECT * FROM erasures WHERE request = ? ORDER BY target"
    return {row["target"]: _confirmation(row) for row in ledger.rows(sql, request.number)}


def _confirmation(erasure: Mapping[str, Any]) -> str:
    if not erasure["confirmed_at"]:
        return NOT_CONFIRMED
    signed = json.loads(erasure["receipt"] or "{}").get(SIGNED)
    return f"confirmed {erasure['confirmed_at']}" + (", signed by its node" if signed else "")


def not_recalibrated(ledger: Ledger, request: Request) -> list[str]:
    """Who has yet to recalibrate for this request."""
    sql = "SELECT client FROM recalibrations WHERE request = ? AND done_at IS NULL ORDER BY client"
    return ledger.column(sql, request.number)


def end_request(ledger: Ledger, request: Request, status: str, reason: str) -> None:
    """Note that a request was refused, or has failed; nothing was done for it."""
    ledger.write(_ending_rows(request, status, reason))


def _ending_rows(request: Request, status: str, reason: str) -> list[Statement]:
    ending = json.dumps({"reason": reason, "finished_at": now()})
    sql = "UPDATE requests SET status = ?, outcome = ? WHERE request = ? AND status = ?"
    row = sql, (status, ending, request.number, PENDING)
    return [row, request_entry(request.number, status)]


def erased_admissions(ledger: Ledger, targets: Sequence[str]) -> list[Statement]:
    """Entries for the chain: the rows that said how these clients were admitted are erased."""
    rows = ledger.pairs("SELECT admission, client FROM admissions")
    gone = [number for number, client in rows.items() if client in targets]
    return [Attestation(ERASED, "admissions", (number,)) for number in gone]


_OF_SINGLE_CLIENTS = {
    *("before", "after", "not_recalibrated", "undefined", "erased_at_client"),
    *("pps", "cfi", "pps_interval", "cfi_interval"),
}
"""Means over clients among them: with the others' figures they would give away who leaves next."""


def finish_rows(request: Request, repaired: int, outcome: dict[str, Any]) -> list[Statement]:
    """The request honoured; figures of single clients are other rows, which can be erased."""
    kept = {key: value for key, value in outcome.items() if key not in _OF_SINGLE_CLIENTS}
    sql = "UPDATE requests SET status = ?, repaired = ?, outcome = ? WHERE request = ?"
    entry = request_entry(request.number, DONE, shared_after=outcome["shared_sha256_after"])
    return [(sql, (DONE, repaired, json.dumps(kept), request.number)), entry]


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
