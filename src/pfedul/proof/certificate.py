"""A certificate of a removal: an in-toto statement, signed with the operator's key.

Its subject is the shared tensors after the removal, its predicate says what was asked for, what
was done, with which evidence, and what all that does not show. It holds the head of the chain of
evidence: an operator who later rewrites the chain contradicts the certificates given away before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from pfedul.base.clock import now
from pfedul.base.hashes import digest
from pfedul.base.keys import fingerprint, operator_key, public_hex
from pfedul.base.text import MISSING
from pfedul.errors import PfedulError
from pfedul.proof.envelope import read_envelope, sign, statement_of
from pfedul.store.attested import differences_from_chain, read_chain, unsigned_entries
from pfedul.store.audits import Audit, best_audit, read_audits
from pfedul.store.chain import Entry, canonical
from pfedul.store.folder import require_run
from pfedul.store.ledger import Ledger
from pfedul.store.paths import LEDGER_FILE, SHARED_FILE
from pfedul.store.requests import DONE, Request, erased_at_client, read_requests
from pfedul.store.trust import refuse_distrust, reservations
from pfedul.version import __version__

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:pfedul:removal:1"

LIMITS = (
    "It says what was done in one run folder; of backups and copies elsewhere it knows nothing.",
    "Whoever holds the key can sign anything; that all of it happened is the signer's word.",
    "That a client's own machine erased its part is that machine's word.",
)


def certify(run: Path, number: int | None) -> tuple[Request, str]:
    """The request that a certificate is about, and the signed certificate."""
    require_run(run)
    with closing(Ledger(run / LEDGER_FILE, read_only=True)) as ledger:
        _refuse_unsound(run, ledger)
        request = done_request(ledger, number)
        key = operator_key()
        return request, sign(_statement(ledger, request, public_hex(key)), key)


def verdict_of(certificate: str) -> str:
    """The verdict of the best evidence that a certificate has."""
    evidence = statement_of(read_envelope(certificate))["predicate"]["evidence"]
    return str(evidence[-1]["verdict"]["verdict"]) if evidence else MISSING


def _refuse_unsound(run: Path, ledger: Ledger) -> None:
    """Refuse to sign on top of what is not whole, or not this operator's word."""
    for sentence in (*differences_from_chain(ledger), *unsigned_entries(read_chain(ledger))):
        raise PfedulError(f"{sentence} So nothing is certified; see 'pfedul verify {run}'.")
    refuse_distrust(run, ledger)


def done_request(ledger: Ledger, number: int | None) -> Request:
    """The removal with this number, or the newest one."""
    done = [item for item in read_requests(ledger) if item.status == DONE]
    fitting = [item for item in done if number in (None, item.number)]
    if not fitting:
        known = ", ".join(str(item.number) for item in done) or "none"
        raise PfedulError(f"There is no such removal to certify in this run; there are: {known}.")
    return fitting[-1]


def _statement(ledger: Ledger, request: Request, public: str) -> dict[str, Any]:
    outcome = request.outcome or {}
    chain = read_chain(ledger)
    return {
        "_type": STATEMENT_TYPE,
        "subject": [
            {"name": SHARED_FILE, "digest": {"sha256": outcome["shared_sha256_after"]}},
        ],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            **statement_facts(ledger, request),
            "evidence": _evidence(ledger, outcome),
            "chain": _head(chain[-1]),
            "signer": {"public_key": public, "fingerprint": fingerprint(public)},
            "limits": [*LIMITS, *reservations(chain, public)],
            "issued_at": now(),
            "pfedul": __version__,
        },
    }


def statement_facts(ledger: Ledger, request: Request) -> dict[str, Any]:
    """What a certificate says of a request and its removal, as JSON has it."""
    facts = {"request": _asked(request), "removal": _done(ledger, request)}
    plain: dict[str, Any] = json.loads(canonical(facts))
    return plain


def all_evidence(ledger: Ledger, request: Request) -> list[dict[str, Any]]:
    """Every summary of evidence that a certificate of this request may have."""
    outcome = request.outcome or {}
    audits = [audit for audit in read_audits(ledger) if set(audit.targets) == set(request.targets)]
    documents = [("removal", outcome.get("audit")), *map(_named, audits)]
    summaries: list[dict[str, Any]] = json.loads(canonical(_summaries(documents)))
    return summaries


def _asked(request: Request) -> dict[str, Any]:
    return {
        "number": request.number,
        "targets": list(request.targets),
        "level": request.level,
        "asked_at": request.asked_at,
        "asked": request.asked,
        "signed_by_node": request.signed,
        "finished_at": (request.outcome or {})["finished_at"],
    }


def _done(ledger: Ledger, request: Request) -> dict[str, Any]:
    outcome = request.outcome or {}
    kept = ("options", "erased", "shared_sha256_before", "shared_sha256_after", "notes")
    after = {"state_sha256_after": outcome.get("state_sha256_after", "")}
    at_client = {"erased_at_client": erased_at_client(ledger, request)}
    return {**{key: outcome[key] for key in kept}, **after, **at_client}


def _evidence(ledger: Ledger, outcome: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the removal measured of itself, and the best audit of exactly its tensors."""
    audit = best_audit(read_audits(ledger), outcome)
    best = [] if audit is None else [_named(audit)]
    return _summaries([("removal", outcome.get("audit")), *best])


def _named(audit: Audit) -> tuple[str, Mapping[str, Any]]:
    return f"{audit.kind} {audit.number}", audit.evidence


def _summaries(documents: Sequence[tuple[str, Mapping[str, Any] | None]]) -> list[dict[str, Any]]:
    return [_summary(source, document) for source, document in documents if document]


def _summary(source: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict with its limits, and the hash of the whole document."""
    return {
        "source": source,
        "level": document["level"],
        "verdict": document["verdict"],
        "removed": document.get("removed"),
        "hashes": document.get("hashes"),
        "sha256": digest(canonical(document).encode()),
    }


def _head(entry: Entry) -> dict[str, Any]:
    return {"entry": entry.entry, "hash": entry.hash, "key": fingerprint(entry.public_key)}
