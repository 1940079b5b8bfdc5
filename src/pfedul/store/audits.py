"""Audits in the ledger, and whether the evidence of one holds for a removal.

Figures of single clients are separate rows, which are erased when the client leaves.
Forgetting is deterministic, so the evidence of a rehearsal holds if options and hashes agree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from pfedul.base.result import Result
from pfedul.base.text import share_words
from pfedul.store.chain import AUDIT, Attestation
from pfedul.store.ledger import Ledger, insert
from pfedul.store.soundness import content_of, json_object

REHEARSAL, AFTER_THE_FACT = "rehearsal", "audit"


@dataclass(frozen=True, repr=False)
class Audit(Result):
    """One audit. `evidence` is all of it (docs/json.md); `clients` has the figures of those that
    are still in the run.
    """

    number: int
    kind: str
    targets: tuple[str, ...]
    made_at: str
    evidence: dict[str, Any]
    clients: dict[str, dict[str, Any]]

    @property
    def verdict(self) -> str:
        """Such as "forgotten" or "not enough evidence"."""
        return str(self.evidence["verdict"]["verdict"])

    @property
    def sentence(self) -> str:
        """The verdict with its reason."""
        return str(self.evidence["verdict"]["sentence"])

    @property
    def needed(self) -> list[str]:
        """What would make the evidence better."""
        return list(self.evidence["verdict"]["needed"])

    @property
    def limits(self) -> list[str]:
        """What the verdict does not cover."""
        return list(self.evidence["verdict"]["limits"])

    @property
    def level(self) -> str:
        """How much the audit spent: instant, quick, standard or strict."""
        return str(self.evidence["level"])

    @property
    def removed(self) -> dict[str, Any] | None:
        """The share of what could be seen that is gone: value and interval; None if not known."""
        return self.evidence.get("removed")

    @property
    def tests(self) -> list[dict[str, Any]]:
        """Every attack through every surface, with its figures for each model."""
        return list(self.evidence["tests"])

    def _facts(self) -> dict[str, Any]:
        return {
            "audit": self.number,
            "targets": list(self.targets),
            "verdict": self.verdict,
            "removed": share_words(self.removed),
            "kind": self.kind,
            "level": self.level,
            "tests": len(self.tests),
        }

    def _sentences(self) -> list[str]:
        return [self.sentence, *(f"Needed: {need}" for need in self.needed)]

    def _rows(self) -> list[dict[str, Any]]:
        return [_test_row(test) for test in self.tests]


def _test_row(test: Mapping[str, Any]) -> dict[str, Any]:
    """The AUC of an attack before and after the removal, and the mean over oracles."""
    figures = test["figures"]
    oracles = [of["value"] for name, of in figures.items() if name.startswith("oracle ")]
    values = {
        "before": _value(figures.get("untouched")),
        "after": _value(figures["candidate"]),
        "retrained": fmean(oracles) if oracles else None,
        "removed": _value(test.get("removed")),
    }
    words = {"surface": test["surface"], "attack": test["attack"]}
    return {**words, **values, "finding": test["finding"]}


def _value(figure: Mapping[str, Any] | None) -> float | None:
    return None if figure is None else figure["value"]


def read_audits(ledger: Ledger) -> list[Audit]:
    """All audits, oldest first."""
    rows = ledger.rows("SELECT * FROM audits ORDER BY audit")
    with content_of(ledger.path):
        return [_audit(ledger, row) for row in rows]


def _audit(ledger: Ledger, row: Mapping[str, Any]) -> Audit:
    """One row of the ledger. Which clients were away is read from their own rows."""
    sql = "SELECT client, figures FROM audit_clients WHERE audit = ? ORDER BY client"
    figures_of = ledger.pairs(sql, row["audit"])
    clients = {client: json_object(figures) for client, figures in figures_of.items()}
    evidence = json_object(row["evidence"])
    away = [f"--away {client}" for client, figures in clients.items() if figures.get("away")]
    evidence["command"] = " ".join([evidence["command"], *away])
    targets = tuple(json.loads(row["targets"]))
    return Audit(row["audit"], row["kind"], targets, row["made_at"], evidence, clients)


def write_audit(
    ledger: Ledger, evidence: Mapping[str, Any], clients: Mapping[str, Mapping[str, Any]]
) -> Audit:
    """Write an audit into the ledger; returns it as it will be read.

    If one with the same findings is there, that is returned: a command that was killed behind its
    row, and is called again, adds no second one.
    """
    known = next((a for a in read_audits(ledger) if _same_findings(a, evidence, clients)), None)
    if known is not None:
        return known
    number = 1 + (ledger.value("SELECT MAX(audit) FROM audits") or 0)
    row = {"audit": number, "kind": evidence["kind"], "made_at": evidence["made_at"]}
    row |= {"targets": json.dumps(evidence["targets"]), "evidence": _json(evidence)}
    figures = [
        insert("audit_clients", audit=number, client=client, figures=_json(own))
        for client, own in clients.items()
    ]
    entry = Attestation(AUDIT, "audits", (number,), {"kind": evidence["kind"]})
    ledger.write([insert("audits", **row), *figures, entry])
    return next(audit for audit in read_audits(ledger) if audit.number == number)


def _same_findings(
    audit: Audit, evidence: Mapping[str, Any], clients: Mapping[str, Mapping[str, Any]]
) -> bool:
    then = {"clients": audit.clients, **_findings(audit.evidence)}
    return bool(then == json.loads(_json({"clients": clients, **_findings(evidence)})))


def _findings(evidence: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in evidence.items() if key not in _VARIES}


_VARIES = {"made_at", "command", "machine", "cost", "outcome", "oracles", "twins"}
"""Parts of the evidence with times, and the command (who was away is in the figures)."""


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


HASHES = {
    "shared_before": (
        "shared_sha256_before",
        "the shared tensors before the removal are others: the run was changed in between",
    ),
    "shared_after": ("shared_sha256_after", "the shared tensors after the removal are others"),
    "state_after": ("state_sha256_after", "the remaining clients' personal tensors are others"),
}


def differences(evidence: Mapping[str, Any], outcome: Mapping[str, Any]) -> list[str]:
    """How the removal differs from the rehearsed one, in sentences; empty if it does not.

    Options that only one of them has are ignored: they do not apply to its method, and the
    methods themselves are compared.

    >>> same = {"shared_before": "a", "shared_after": "b", "state_after": "c"}
    >>> evidence = {"options": {"alpha": 0.5}, "hashes": same}
    >>> outcome = {"options": {"alpha": 0.5}, "shared_sha256_before": "a",
    ...            "shared_sha256_after": "b", "state_sha256_after": "c"}
    >>> differences(evidence, outcome)
    []
    >>> differences(evidence, {**outcome, "shared_sha256_before": "x"})
    ['the shared tensors before the removal are others: the run was changed in between']
    """
    then, now = evidence["options"], outcome["options"]
    changed = [
        f"the option {name} was {then[name]} in the rehearsal and is {now[name]} in the removal"
        for name in sorted(then.keys() & now.keys())
        if then[name] != now[name]
    ]
    hashes = evidence["hashes"]
    pairs = HASHES.items()
    return changed + [words for name, (key, words) in pairs if hashes[name] != outcome[key]]


def best_audit(audits: Sequence[Audit], outcome: Mapping[str, Any]) -> Audit | None:
    """The best evidence for a removal: of exactly its tensors, a rehearsal, with oracles, new."""
    fitting = [audit for audit in audits if set(audit.targets) == set(outcome["targets"])]

    def worth(audit: Audit) -> tuple[bool, bool, bool, int]:
        exact = not differences(audit.evidence, outcome)
        oracles = bool(audit.evidence.get("oracles"))
        return exact, audit.kind == REHEARSAL, oracles, audit.number

    return max(fitting, key=worth, default=None)
