"""What a report is made of, read from a run folder without touching it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from pfedul.errors import PfedulError
from pfedul.status import read_status
from pfedul.store.audits import Audit, best_audit, differences, read_audits
from pfedul.store.folder import require_run
from pfedul.store.ledger import Ledger
from pfedul.store.paths import LEDGER_FILE, SETTINGS_FILE
from pfedul.store.requests import DONE, Request, read_requests
from pfedul.unlearn.outcome import read_outcome


def read_material(run: Path, number: int | None = None) -> dict[str, Any]:
    """Of the removal with that number, or of the newest; before any, of the newest rehearsal."""
    require_run(run)
    with closing(Ledger(run / LEDGER_FILE, read_only=True)) as ledger:
        request = _request(ledger, number)
        outcome = None if request is None else read_outcome(ledger, request).as_json()
        audits = read_audits(ledger)
    newest = audits[-1] if audits else None
    audit = newest if outcome is None else best_audit(audits, outcome)
    return {
        "run": read_status(run),
        "settings": (run / SETTINGS_FILE).read_text(encoding="utf-8"),
        "request": outcome,
        "evidence": None if audit is None else audit.evidence,
        "clients": {} if audit is None else audit.clients,
        "applies": _applies(outcome, audit),
    }


def _request(ledger: Ledger, number: int | None) -> Request | None:
    done = [request for request in read_requests(ledger) if request.status == DONE]
    if number is None:
        return done[-1] if done else None
    found = next((request for request in done if request.number == number), None)
    if found is None:
        known = ", ".join(str(request.number) for request in done) or "none"
        raise PfedulError(f"There is no finished request {number} in this run; there are: {known}.")
    return found


def _applies(outcome: dict[str, Any] | None, audit: Audit | None) -> dict[str, Any] | None:
    """Whether the evidence is about the very tensors of the removal."""
    if outcome is None or audit is None:
        return None
    found = differences(audit.evidence, outcome)
    return {"holds": not found, "differences": found}
