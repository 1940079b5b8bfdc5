"""The audit in sentences: what was found, in plain words and with its numbers."""

from __future__ import annotations

from collections.abc import Mapping

from pfedul.audit.attacks.base import Figure
from pfedul.audit.judge.findings import TOLERATED_DISTANCE, Backdoor, Finding, Guard, ends
from pfedul.audit.judge.paired_test import Comparison

SURFACES: Mapping[str, str] = {
    "remaining": "the remaining clients' models",
    "worst": "the most telling of the remaining clients' models",
    "stale": "the stale head",
    "probe": "a freshly trained head",
    "shared": "the shared model",
}
ATTACKS: Mapping[str, str] = {
    "threshold": "loss threshold",
    "logistic": "logistic attack",
    "rmia": "RMIA",
}
MEANINGS: Mapping[str, str] = {
    "leak": "told from retraining",
    "reduced leak": "told from retraining, though less than before the removal",
    "within": "not told from retraining",
    "below": "below retraining and below 0.5, so the samples stand out as well",
    "unclear": "told neither from retraining nor from the model before the removal",
    "nothing to see": "already before the removal not told from retraining",
}


def surface(name: str) -> str:
    """A surface in words; a name that is not known stays as it is.

    >>> surface("stale"), surface("local models")
    ('the stale head', 'local models')
    """
    return SURFACES.get(name, name)


def number(figure: Figure, decimals: int = 2) -> str:
    """A figure with its interval.

    >>> from pfedul.audit.attacks.roc import AUC
    >>> number(Figure(AUC, 0.71, (0.65, 0.77)))
    '0.71 (0.65 to 0.77)'
    """
    low, high = ends(figure)
    return f"{figure.value:.{decimals}f} ({low:.{decimals}f} to {high:.{decimals}f})"


def auc_beside_retraining(comparison: Comparison) -> str:
    """The candidate's AUC, the oracles', and the one before the removal if it is known."""
    words = f"AUC {number(comparison.candidate)} where retraining gives {retrained(comparison):.2f}"
    if comparison.untouched is not None:
        words += f"; before the removal it was {comparison.untouched.value:.2f}"
    return words


def retrained(comparison: Comparison) -> float:
    """Mean AUC of the oracles."""
    return sum(oracle.value for oracle in comparison.oracles) / len(comparison.oracles)


def power(comparison: Comparison) -> str:
    """What the test would have missed in more than one case of five."""
    if comparison.smallest_visible >= 1 - retrained(comparison):
        return "Even a large leak might not have been seen"
    return f"A leak below {comparison.smallest_visible:.2f} in AUC might not have been seen"


def reason(finding: Finding) -> str:
    """One line for each test."""
    found = finding.comparison
    meaning = MEANINGS[found.finding]
    if found.finding == "within" and found.untouched is not None:
        meaning += ", but told from the model before the removal"
    return (
        f"Through {surface(finding.surface)}, {ATTACKS.get(finding.attack, finding.attack)}: "
        f"{auc_beside_retraining(found)}. Difference {number(found.difference, 3)}, "
        f"corrected for the number of tests; one oracle lies up to {found.spread:.3f} "
        f"from the others: {meaning}."
    )


def backdoor_reason(backdoor: Backdoor) -> str:
    """The trigger's success, always beside the oracles'."""
    highest = max(oracle.value for oracle in backdoor.oracles)
    words = {
        "leak": "it still works",
        "within": "it works no better than on retrained models",
        "nothing to see": "it did not work before the removal either",
    }
    return (
        f"The planted trigger succeeds in {number(backdoor.candidate)} of the trials, on "
        f"retrained models in up to {highest:.2f}: {words[backdoor.finding]}."
    )


def guard_reason(guard: Guard) -> str:
    """How far the answers on other people's samples are from an oracle's."""
    if guard.between_oracles is None:
        return (
            f"On other clients' test samples the answers are {number(guard.kl, 3)} nats from an "
            "oracle's; with one oracle it is not known how much of that is ordinary."
        )
    words = (
        f"On other clients' test samples the answers are {number(guard.kl, 3)} nats from an "
        f"oracle's, where two oracles are up to {guard.between_oracles[1]:.3f} apart"
    )
    if guard.broken:
        words += f", more than {TOLERATED_DISTANCE:.0f} times that: damage or noise can hide a leak"
    return words + "."


def ulira_reason(accuracy: Figure) -> str:
    """Whether unlearned models as such can be told from retrained ones."""
    told = "told apart" if ends(accuracy)[0] > accuracy.metric.best else "not told apart"
    return f"U-LiRA accuracy {number(accuracy)}: unlearned and retrained models are {told}."
