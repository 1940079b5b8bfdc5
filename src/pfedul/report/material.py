"""What a report is made of, read from a run folder without changing it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfedul.errors import PfedulError
from pfedul.status import read_status
from pfedul.store.audits import Audit, best_audit, differences, read_audits
from pfedul.store.folder import require_run
from pfedul.store.ledger import Ledger
from pfedul.store.paths import LEDGER_FILE, SETTINGS_FILE, certificate_file
from pfedul.store.requests import DONE, Request, read_requests
from pfedul.unlearn.outcome import read_outcome

Json = Mapping[str, Any]

NO_EVIDENCE = (
    "No rehearsal was made, so nothing is known about what was forgotten; "
    "run pfedul rehearse before pfedul forget, or pfedul audit after it."
)
NOT_FORGOTTEN_YET = "No client was forgotten in this run: what follows is about a rehearsal."
NOTHING_AT_ALL = "No client was forgotten in this run, and no removal was rehearsed."


def read_material(run: Path, number: int | None = None) -> dict[str, Any]:
    """About the removal with that number, or the newest; before any, about the newest rehearsal."""
    require_run(run)
    with closing(Ledger(run / LEDGER_FILE, read_only=True)) as ledger:
        request = done_request(ledger, number)
        outcome = None if request is None else read_outcome(ledger, request).as_json()
        audits = read_audits(ledger)
    if outcome is not None:
        name = certificate_file(outcome["request"])
        outcome["certificate"] = name if (run / name).is_file() else None
    newest = audits[-1] if audits else None
    audit = newest if outcome is None else best_audit(audits, outcome)
    evidence, holds = _evidence(outcome, audit)
    return {
        "run": read_status(run),
        "settings": (run / SETTINGS_FILE).read_text(encoding="utf-8"),
        "request": outcome,
        "evidence": evidence,
        "clients": {} if audit is None else audit.clients,
        "applies": holds,
    }


def _evidence(
    outcome: dict[str, Any] | None, audit: Audit | None
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The best evidence, and whether it applies: that of an audit, else what the removal measured.

    An audit of other tensors comes after the removal's own evidence, if that has any test.
    """
    found, own = applies(outcome, audit), own_evidence(outcome)
    if own is not None and (audit is None or (own["tests"] and not (found or {}).get("holds"))):
        return own, {"holds": True, "differences": []}
    return None if audit is None else audit.evidence, found


def own_evidence(outcome: dict[str, Any] | None) -> dict[str, Any] | None:
    """What a removal measured of itself, in the form of an evidence document."""
    if outcome is None or not outcome.get("audit"):
        return None
    return {
        **outcome["audit"],
        "kind": "removal",
        "made_at": outcome["finished_at"],
        "command": " ".join(["pfedul forget RUN", *(f"--client {t}" for t in outcome["targets"])]),
        "hashes": {
            "shared_before": outcome["shared_sha256_before"],
            "shared_after": outcome["shared_sha256_after"],
            "state_after": outcome["state_sha256_after"],
        },
    }


def done_request(ledger: Ledger, number: int | None) -> Request | None:
    """The finished request with that number, or the newest one; None if there is none."""
    done = [request for request in read_requests(ledger) if request.status == DONE]
    if number is None:
        return done[-1] if done else None
    for request in done:
        if request.number == number:
            return request
    known = ", ".join(str(request.number) for request in done) or "none"
    raise PfedulError(f"There is no finished request {number} in this run; there are: {known}.")


def applies(outcome: Json | None, audit: Audit | None) -> dict[str, Any] | None:
    """Whether the evidence is about the tensors of the removal; None if one of them is missing."""
    if outcome is None or audit is None:
        return None
    changes = differences(audit.evidence, outcome)
    return {"holds": not changes, "differences": changes}


@dataclass(frozen=True)
class Material:
    """What a report is made of; every part but the run may be empty.

    `applies` says whether the evidence is about the tensors that the request left
    behind; None if there is nothing to compare.
    """

    run: Json
    settings: str
    request: Json
    evidence: Json
    clients: Mapping[str, Json]
    applies: Json | None

    @staticmethod
    def of(material: Json) -> Material:
        """From the plain data of `read_material`."""
        empty: dict[str, Any] = {
            "run": {},
            "settings": "",
            "request": {},
            "evidence": {},
            "clients": {},
        }
        parts = {name: material.get(name) or nothing for name, nothing in empty.items()}
        return Material(**parts, applies=material.get("applies"))

    @property
    def targets(self) -> tuple[str, ...]:
        """Who was forgotten, or was to be forgotten in the rehearsal."""
        return tuple((self.request or self.evidence).get("targets") or ())

    @property
    def plan(self) -> Json | None:
        """The plan of the removal, or else of the rehearsal."""
        return self.request.get("plan") or self.evidence.get("plan")

    @property
    def outcome(self) -> Json:
        """The outcome of the removal, or else of the rehearsal."""
        return self.request or self.evidence.get("outcome") or {}

    @property
    def options(self) -> Json:
        """The options of forget."""
        return (self.request or self.evidence).get("options") or {}

    @property
    def holds(self) -> bool | None:
        """Whether the evidence is about the tensors of the run; None if unknown."""
        return None if self.applies is None else bool(self.applies["holds"])

    def tests(self) -> list[Json]:
        """The tests that the verdict rests on."""
        return list(self.evidence.get("tests") or ())

    def accuracies(self) -> dict[str, tuple[float, float]]:
        """Remaining client -> accuracy before and after."""
        before, after = (self.outcome.get(key) or {} for key in ("before", "after"))
        if before:
            return {client: (before[client], after[client]) for client in before if client in after}
        return {
            client: (row["before"], row["after"])
            for client, row in self.clients.items()
            if row.get("before") is not None and row.get("after") is not None
        }
