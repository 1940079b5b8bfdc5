"""The verdict on a model in sentences: what was found, in plain words and with its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pfedul.audit.attacks import ATTACKS
from pfedul.audit.attacks.base import Estimate
from pfedul.audit.judge.paired_test import PairedTest
from pfedul.audit.judge.rules import (
    FEWEST_ORACLES,
    FORGOTTEN,
    MOST_LEFT,
    NOT_ENOUGH,
    NOT_FORGOTTEN,
    NOTHING_TO_FORGET,
    OVER_FORGOTTEN,
    PARTLY,
    STANDARD_ORACLES,
    TOLERATED_DISTANCE,
    Finding,
    Guard,
    TriggerFinding,
    Verdict,
    VerdictRules,
    samples_factor,
)

SURFACES: Mapping[str, str] = {
    "remaining": "the remaining clients' models",
    "worst": "the most telling of the remaining clients' models",
    "stale": "the stale head",
    "probe": "a freshly trained head",
    "shared": "the shared model",
}
MEANINGS: Mapping[str, str] = {
    "leak": "distinguishable from retraining",
    "reduced leak": "distinguishable from retraining, though less than before the removal",
    "within": "not distinguishable from retraining",
    "below": "below retraining and below 0.5, so the samples stand out as well",
    "unclear": "distinguishable neither from retraining nor from the model before the removal",
    "nothing to see": "not distinguishable from retraining even before the removal",
}

LESS_LEFT = f"Less than {100 * MOST_LEFT:.0f} % of the leak left, at the end of its interval."
"""What is needed where a leak was there before, and too much of it may be left."""


def judge(rules: VerdictRules, untested: Mapping[str, str] | None = None) -> Verdict:
    """The verdict on one model; `untested` is surface -> why not."""
    verdict = rules.verdict()
    return Verdict(
        verdict=verdict,
        sentence=verdict_sentence(rules, verdict),
        reasons=tuple(reasons(rules)),
        limits=tuple(limits(rules, untested or {})),
        needed=tuple(needed(rules)) if verdict == NOT_ENOUGH else (),
        strayed=max((abs(one.test.difference.value) for one in rules.accusing), default=0.0),
    )


def number(figure: Estimate, decimals: int = 2) -> str:
    """A figure with its interval: 0.71 (0.65 to 0.77)."""
    low, high = figure.ends
    return f"{figure.value:.{decimals}f} ({low:.{decimals}f} to {high:.{decimals}f})"


def share(figure: Estimate) -> str:
    """A share with its interval.

    >>> from pfedul.audit.judge.references import REMOVED
    >>> share(Estimate(REMOVED, 0.97, (0.781, 1.13)))
    '97 % (78 % to 113 %)'
    """
    low, high = figure.ends
    return f"{100 * figure.value:.0f} % ({100 * low:.0f} % to {100 * high:.0f} %)"


def seen_and_gone(removed: Estimate) -> str:
    """The one number of an audit, as a sentence."""
    return f"Of what could be seen, {share(removed)} is gone."


def auc_and_retraining(test: PairedTest) -> str:
    """The candidate's AUC, the oracles', and the one before the removal if it is known."""
    words = f"AUC {number(test.candidate)} where retraining gives {retrained(test):.2f}"
    if test.untouched is not None:
        words += f"; before the removal it was {test.untouched.value:.2f}"
    return words


def retrained(test: PairedTest) -> float:
    """Mean AUC of the oracles."""
    return sum(oracle.value for oracle in test.oracles) / len(test.oracles)


def power(test: PairedTest) -> str:
    """What the test would have missed in more than one case of five."""
    if test.smallest_visible >= 1 - retrained(test):
        return "Even a large leak might not have been seen"
    return f"A leak below {test.smallest_visible:.2f} in AUC might not have been seen"


def reason(finding: Finding) -> str:
    """One line for each test."""
    found = finding.test
    meaning = MEANINGS[found.finding]
    if found.finding == "within" and found.untouched is not None:
        meaning += ", but distinguishable from the model before the removal"
    gone = f" Gone: {share(found.removed)}." if found.leaked and found.removed else ""
    return (
        f"Through {SURFACES[finding.surface]}, {ATTACKS[finding.attack].title}: "
        f"{auc_and_retraining(found)}. Difference {number(found.difference, 3)}, "
        f"corrected for the number of tests; one oracle lies up to {found.spread:.3f} "
        f"from the others: {meaning}.{gone}"
    )


def backdoor_reason(backdoor: TriggerFinding) -> str:
    """The trigger's success, always next to the oracles'."""
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
    answers = f"On other clients' test samples the answers are {number(guard.kl, 3)} nats from an"
    if guard.between_oracles is None:
        return f"{answers} oracle's; with one oracle it is not known how much of that is ordinary."
    words = f"{answers} oracle's, where two oracles are up to {guard.between_oracles[1]:.3f} apart"
    if guard.broken:
        words += f", more than {TOLERATED_DISTANCE:.0f} times that: damage or noise can hide a leak"
    return words + "."


def ulira_reason(accuracy: Estimate) -> str:
    """Whether unlearned models as such are distinguishable from retrained ones."""
    words = "are" if accuracy.ends[0] > accuracy.metric.best else "are not"
    models = f"unlearned and retrained models {words} distinguishable"
    return f"U-LiRA accuracy {number(accuracy)}: {models}."


def verdict_sentence(rules: VerdictRules, verdict: str) -> str:
    if rules.oracles < FEWEST_ORACLES or not rules.findings:
        return (
            f"With {_count(rules.oracles, 'oracle')} and {_count(len(rules.findings), 'test')} "
            f"nothing can be said about {rules.target}."
        )
    by_check = verdict in (NOT_FORGOTTEN, PARTLY) and not rules.standing
    main = _decided_by_a_check(rules) if by_check else _decided_by_attacks(rules, verdict)
    gone = "" if rules.removed is None else f" {seen_and_gone(rules.removed)}"
    return f"{main}{gone} {power(rules.strongest.test)}."


def _decided_by_attacks(rules: VerdictRules, verdict: str) -> str:
    """What holds of the strongest test."""
    found = rules.strongest
    opening = _OPENINGS["false alarm" if verdict == NOT_ENOUGH and rules.fallen else verdict]
    who = opening.format(through=SURFACES[found.surface], whose=rules.target)
    return f"{who}: {auc_and_retraining(found.test)}."


def _decided_by_a_check(rules: VerdictRules) -> str:
    """What the attacks did not see: the trigger, noise or damage, and the unlearned model."""
    if rules.backdoor is not None and rules.backdoor.finding == "leak":
        reason = backdoor_reason(rules.backdoor)
    elif rules.guard is not None and rules.guard.broken:
        reason = guard_reason(rules.guard)
    else:
        assert rules.ulira is not None
        reason = ulira_reason(rules.ulira)
    return f"{reason} The attacks on {rules.target}'s samples alone do not show it."


_OPENINGS = {
    FORGOTTEN: "Through {through}, {whose}'s samples cannot be distinguished from others any "
    "better than after retraining",
    PARTLY: "Through {through}, {whose}'s samples can still be distinguished from others, "
    "though less than before",
    NOT_FORGOTTEN: "Through {through}, {whose}'s samples can still be distinguished from others",
    OVER_FORGOTTEN: "Through {through}, {whose}'s samples stand out as less familiar than they "
    "are to a retrained model",
    NOTHING_TO_FORGET: "Even before the removal {whose}'s samples could not be distinguished from "
    "others any better than after retraining, which is good to know; nearest to it came {through}",
    NOT_ENOUGH: "The evidence does not decide whether {whose} is forgotten, least of all through "
    "{through}",
    "false alarm": "Something stands out about {whose}, but no more than about a retrained model "
    "that was put to the same test; through {through}",
}


def reasons(rules: VerdictRules) -> Iterable[str]:
    yield from map(reason, rules.findings)
    if rules.backdoor is not None:
        yield backdoor_reason(rules.backdoor)
    if rules.ulira is not None:
        yield ulira_reason(rules.ulira)
    if rules.guard is not None:
        yield guard_reason(rules.guard)
    if rules.held_out:
        yield _held_out_reason(rules)


def _held_out_reason(rules: VerdictRules) -> str:
    alarms = len(rules.false_alarms)
    if not alarms:
        return f"Of {_count(len(rules.held_out), 'held-out oracle')} none was accused."
    strayed = max(alarm.strayed for alarm in rules.false_alarms)
    return (
        f"Of {_count(len(rules.held_out), 'held-out oracle')} {alarms} would have been accused, "
        f"with differences of up to {strayed:.3f} in AUC: only what lies beyond that counts, and "
        "no check that accuses an oracle."
    )


def limits(rules: VerdictRules, untested: Mapping[str, str]) -> Iterable[str]:
    yield (
        "This is evidence about these attacks, these samples and these oracles (models trained "
        "again without the target), not a proof; another attack may see more."
    )
    yield "It says nothing about backups, or about copies of models or data kept elsewhere."
    yield f"The spread of retraining is known from {_count(rules.oracles, 'oracle')}" + (
        "; with so few it is largely guessed." if rules.oracles < STANDARD_ORACLES else "."
    )
    if rules.findings and all(one.test.untouched is None for one in rules.findings):
        yield "Without the model before the removal it is not known what there was to forget."
    if rules.guard is None:
        yield "Whether the answers to other people's samples are sound was not checked."
    for name, why in untested.items():
        yield f"Not tested: {SURFACES[name]} ({why})."


def needed(rules: VerdictRules) -> Iterable[str]:
    if not rules.findings:
        yield "At least one attack on one surface that can be tested."
    more = max(STANDARD_ORACLES, 2 * rules.oracles)
    yield f"More oracles: {more} instead of {rules.oracles}."
    factor = samples_factor(rules)
    if factor > 1:
        yield (
            f"More samples of {rules.target} and of non-members: at least about {factor} times "
            "as many."
        )
    if rules.unbounded:
        yield LESS_LEFT


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
