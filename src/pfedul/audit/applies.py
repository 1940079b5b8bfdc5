"""Does the evidence of a rehearsal hold for a removal? Forgetting is deterministic: compare hashes.

>>> same = {"shared_before": "a", "shared_after": "b", "state_after": "c"}
>>> evidence = {"options": {"alpha": 0.5}, "hashes": same}
>>> outcome = {"options": {"alpha": 0.5}, "shared_sha256_before": "a",
...            "shared_sha256_after": "b", "state_sha256_after": "c"}
>>> differences(evidence, outcome)
[]
>>> differences(evidence, {**outcome, "shared_sha256_before": "x"})
['the shared tensors before the removal are others: the run was changed in between']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pfedul.store.audits import REHEARSAL, Audit

_HASHES = {
    "shared_before": (
        "shared_sha256_before",
        "the shared tensors before the removal are others: the run was changed in between",
    ),
    "shared_after": ("shared_sha256_after", "the shared tensors after the removal are others"),
    "state_after": ("state_sha256_after", "the remaining clients' personal tensors are others"),
}


def differences(evidence: Mapping[str, Any], outcome: Mapping[str, Any]) -> list[str]:
    """In what the removal differs from the rehearsed one, in words; nothing if it is the same.

    An option that one of them does not have means nothing to its method, which is compared.
    """
    found = [
        f"the option {name} was {evidence['options'].get(name)} in the rehearsal and is "
        f"{outcome['options'].get(name)} in the removal"
        for name in sorted(evidence["options"].keys() & outcome["options"].keys())
        if evidence["options"].get(name) != outcome["options"].get(name)
    ]
    for name, (other, words) in _HASHES.items():
        if evidence["hashes"][name] != outcome[other]:
            found.append(words)
    return found


def best_audit(audits: Sequence[Audit], outcome: Mapping[str, Any]) -> Audit | None:
    """Of a removal: what was measured on its very tensors, a rehearsal first, then the newest."""
    fitting = [audit for audit in audits if set(audit.targets) == set(outcome["targets"])]

    def worth(audit: Audit) -> tuple[bool, bool, int]:
        exact = not differences(audit.evidence, outcome)
        return exact, audit.kind == REHEARSAL, audit.number

    return max(fitting, key=worth, default=None)
