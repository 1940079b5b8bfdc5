"""From findings to one verdict, a sentence, its reasons and its limits.

The rules, from the first that applies:

1. With fewer than two oracles, or without a test: not enough evidence.
2. A leak anywhere, a working trigger included: not forgotten. A leak that has become
   smaller, and none that has not: partly forgotten.
3. Otherwise, where the candidate stands out *below* the oracles: over-forgotten. The
   logistic attack fits its own direction and takes that for a leak; on a surface where
   another attack says "below", its leak is that very thing and counts as such.
4. Otherwise, a surface on which the untouched model is told from the oracles, while the
   candidate is told from neither by any attack: not enough evidence. Where another
   attack on the same surface settles it, the weaker one adds no doubt.
5. Otherwise, where the untouched model is nowhere told from the oracles: nothing
   measurable to forget. That is a useful answer, not a failed audit.
6. Otherwise: forgotten, within the spread of retraining.

For rule 5, and after the fact (without the untouched model) for rule 6, nothing has shown
what the tests can see. Then one of them must be able to see a leak of 0.15 in AUC, else
there is not enough evidence.

Two checks turn what rules 5 and 6 give into "partly forgotten": U-LiRA tells unlearned
from retrained models; or, for rule 6, the answers on other people's samples are far
from an oracle's, because noise or damage on all answers hides members without
forgetting them.

Held-out oracles go through the same rules. One that is accused shows what the audit
takes for a leak where there is none; so an accusation then stands only if its whole
interval lies beyond the largest difference of any accused oracle, on whatever surface,
and a check that accuses an oracle decides nothing. If no accusation stands, there is
not enough evidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pfedul.audit.attacks.base import Figure
from pfedul.audit.judge import sentences as words
from pfedul.audit.judge.findings import Backdoor as Backdoor
from pfedul.audit.judge.findings import Finding as Finding
from pfedul.audit.judge.findings import Guard as Guard
from pfedul.audit.judge.findings import ends

FORGOTTEN = "forgotten"
PARTLY = "partly forgotten"
NOT_FORGOTTEN = "not forgotten"
OVER_FORGOTTEN = "over-forgotten"
NOTHING_TO_FORGET = "nothing measurable to forget"
NOT_ENOUGH = "not enough evidence"

VERDICTS = (FORGOTTEN, PARTLY, NOT_FORGOTTEN, OVER_FORGOTTEN, NOTHING_TO_FORGET, NOT_ENOUGH)
ACCUSATIONS = (PARTLY, NOT_FORGOTTEN, OVER_FORGOTTEN)

NOTABLE_LEAK = 0.15
"""In AUC; what an audit that found nothing must have been able to see."""

_FEWEST_ORACLES = 2
_STANDARD_ORACLES = 4


@dataclass(frozen=True)
class Verdict:
    """One of `VERDICTS`, and what to say about it.

    `strayed` is the largest difference from the oracles that was held against the model.
    """

    verdict: str
    sentence: str
    reasons: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    strayed: float = field(default=0.0, compare=False)

    @property
    def title(self) -> str:
        """The verdict in full."""
        return f"{FORGOTTEN} (within the spread of retraining)" if passes(self) else self.verdict

    def as_json(self) -> dict[str, str | list[str]]:
        """As in the evidence document.

        >>> Verdict("not enough evidence", "One oracle is too few.").as_json()["needed"]
        []
        """
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "reasons": list(self.reasons),
            "limits": list(self.limits),
            "needed": list(self.needed),
        }


def passes(verdict: Verdict, held_out: bool = False) -> bool:
    """Was it shown to be forgotten? For a held-out oracle it is enough that there was nothing.

    A held-out oracle never held anything of the target: where nothing can be measured
    it was rightly not accused. A candidate without anything to measure showed nothing.

    >>> passes(Verdict("nothing measurable to forget", ""))
    False
    >>> passes(Verdict("nothing measurable to forget", ""), held_out=True)
    True
    """
    return verdict.verdict == FORGOTTEN or (held_out and verdict.verdict == NOTHING_TO_FORGET)


def accuses(verdict: Verdict) -> bool:
    """Was something held against the model? Lack of evidence is no accusation.

    >>> accuses(Verdict("over-forgotten", "")), accuses(Verdict("not enough evidence", ""))
    (True, False)
    """
    return verdict.verdict in ACCUSATIONS


def judge(
    findings: Sequence[Finding],
    *,
    oracles: int,
    target: str = "the client",
    guard: Guard | None = None,
    ulira: Figure | None = None,
    backdoor: Backdoor | None = None,
    held_out: Sequence[Verdict] = (),
    untested: Mapping[str, str] | None = None,
) -> Verdict:
    """The verdict on one model, by the rules above; `untested` is surface -> why not.

    >>> judge([], oracles=0).verdict
    'not enough evidence'
    """
    case = _Case(tuple(findings), oracles, target, guard, ulira, backdoor, tuple(held_out))
    verdict = case.verdict()
    return Verdict(
        verdict=verdict,
        sentence=_sentence(case, verdict),
        reasons=tuple(_reasons(case)),
        limits=tuple(_limits(case, untested or {})),
        needed=tuple(_needed(case)) if verdict == NOT_ENOUGH else (),
        strayed=max((abs(one.comparison.difference.value) for one in case.accusing), default=0.0),
    )


@dataclass(frozen=True)
class _Case:
    """All that is known, and the rules."""

    findings: tuple[Finding, ...]
    oracles: int
    target: str
    guard: Guard | None
    ulira: Figure | None
    backdoor: Backdoor | None
    held_out: tuple[Verdict, ...]

    def verdict(self) -> str:
        if self.oracles < _FEWEST_ORACLES or not self.findings:
            return NOT_ENOUGH
        found = {finding.finding for finding in self.standing} | self.trigger
        for finding, verdict in _ACCUSED_OF:
            if finding in found:
                return verdict
        if self.fallen or self.undecided or self.blind:
            return NOT_ENOUGH
        verdict = FORGOTTEN if "within" in self.seen else NOTHING_TO_FORGET
        if not self.doubted(verdict):
            return verdict
        return NOT_ENOUGH if any(not alarm.strayed for alarm in self.false_alarms) else PARTLY

    @property
    def seen(self) -> set[str]:
        return {finding.finding for finding in self.findings} | self.trigger

    @property
    def trigger(self) -> set[str]:
        return set() if self.backdoor is None else {self.backdoor.finding}

    @property
    def accusing(self) -> list[Finding]:
        accusations = [finding for finding, _ in _ACCUSED_OF]
        accused = [finding for finding in self.findings if finding.finding in accusations]
        turned = {finding.surface for finding in accused if finding.finding == "below"}
        return [one for one in accused if one.attack != "logistic" or one.surface not in turned]

    @property
    def false_alarms(self) -> list[Verdict]:
        return [verdict for verdict in self.held_out if accuses(verdict)]

    @property
    def standing(self) -> list[Finding]:
        """Accusations that go beyond what any wrongly accused oracle showed."""
        strayed = max((alarm.strayed for alarm in self.false_alarms), default=0.0)
        return [finding for finding in self.accusing if _distance_from_zero(finding) > strayed]

    @property
    def fallen(self) -> list[Finding]:
        return [finding for finding in self.accusing if finding not in self.standing]

    @property
    def undecided(self) -> list[Finding]:
        """Without those of which another attack on the same surface says more."""
        settled = {one.surface for one in self.findings if one.finding == "within"}
        unclear = [one for one in self.findings if one.finding == "unclear"]
        return [one for one in unclear if one.surface not in settled]

    @property
    def blind(self) -> bool:
        """No test shows by the untouched model, or by its power, that it can see something."""
        return not any(
            found.smallest_visible <= NOTABLE_LEAK
            or (found.finding == "within" and found.untouched is not None)
            for found in (finding.comparison for finding in self.findings)
        )

    def doubted(self, verdict: str) -> bool:
        told = self.ulira is not None and ends(self.ulira)[0] > self.ulira.metric.best
        odd = self.guard is not None and self.guard.broken
        return told or (odd and verdict == FORGOTTEN)

    @property
    def strongest(self) -> Finding:
        """The accusation that lies furthest out, else the test that had most to find."""
        candidates = self.standing or self.fallen or self.undecided or self.findings
        return max(candidates, key=_weight)


_ACCUSED_OF = (("leak", NOT_FORGOTTEN), ("reduced leak", PARTLY), ("below", OVER_FORGOTTEN))
_BY_GRAVITY = ("nothing to see", "unclear", "within", "below", "reduced leak", "leak")


def _distance_from_zero(finding: Finding) -> float:
    low, high = ends(finding.comparison.difference)
    return max(low, -high)


def _weight(finding: Finding) -> tuple[int, float]:
    """First by gravity, then by size: of the difference, or of the leak before the removal."""
    found = finding.comparison
    gravity = _BY_GRAVITY.index(found.finding)
    if gravity > _BY_GRAVITY.index("within"):
        return gravity, abs(found.difference.value)
    return gravity, (found.untouched_difference or found.difference).value


def _sentence(case: _Case, verdict: str) -> str:
    if case.oracles < _FEWEST_ORACLES or not case.findings:
        return (
            f"With {_count(case.oracles, 'oracle')} and {_count(len(case.findings), 'test')} "
            f"nothing can be said about {case.target}."
        )
    by_check = verdict in (NOT_FORGOTTEN, PARTLY) and not case.standing
    main = _decided_by_a_check(case) if by_check else _decided_by_attacks(case, verdict)
    return f"{main} {words.power(case.strongest.comparison)}."


def _decided_by_attacks(case: _Case, verdict: str) -> str:
    """What holds of the strongest test."""
    found = case.strongest
    opening = _OPENINGS["false alarm" if verdict == NOT_ENOUGH and case.fallen else verdict]
    who = opening.format(through=words.surface(found.surface), whose=case.target)
    return f"{who}: {words.auc_beside_retraining(found.comparison)}."


def _decided_by_a_check(case: _Case) -> str:
    """What the attacks did not see: the trigger, noise or damage, and the unlearned model."""
    if case.backdoor is not None and case.backdoor.finding == "leak":
        reason = words.backdoor_reason(case.backdoor)
    elif case.guard is not None and case.guard.broken:
        reason = words.guard_reason(case.guard)
    else:
        assert case.ulira is not None
        reason = words.ulira_reason(case.ulira)
    return f"{reason} The attacks on {case.target}'s samples alone do not show it."


_OPENINGS = {
    FORGOTTEN: "Through {through}, {whose}'s samples cannot be told from others any better "
    "than after retraining",
    PARTLY: "Through {through}, {whose}'s samples can still be told from others, though less "
    "than before",
    NOT_FORGOTTEN: "Through {through}, {whose}'s samples can still be told from others",
    OVER_FORGOTTEN: "Through {through}, {whose}'s samples stand out as less familiar than they "
    "are to a retrained model",
    NOTHING_TO_FORGET: "Even before the removal {whose}'s samples could not be told from others "
    "any better than after retraining, which is good to know; nearest to it came {through}",
    NOT_ENOUGH: "The evidence does not decide whether {whose} is forgotten, least of all through "
    "{through}",
    "false alarm": "Something stands out about {whose}, but no more than about a retrained model "
    "that was put to the same test; through {through}",
}


def _reasons(case: _Case) -> Iterable[str]:
    yield from map(words.reason, case.findings)
    if case.backdoor is not None:
        yield words.backdoor_reason(case.backdoor)
    if case.ulira is not None:
        yield words.ulira_reason(case.ulira)
    if case.guard is not None:
        yield words.guard_reason(case.guard)
    if case.held_out:
        yield _held_out_reason(case)


def _held_out_reason(case: _Case) -> str:
    alarms = len(case.false_alarms)
    if not alarms:
        return f"Of {_count(len(case.held_out), 'held-out oracle')} none was accused."
    strayed = max(alarm.strayed for alarm in case.false_alarms)
    return (
        f"Of {_count(len(case.held_out), 'held-out oracle')} {alarms} would have been accused, "
        f"with differences of up to {strayed:.3f} in AUC: only what lies beyond that counts, and "
        "no check that accuses an oracle."
    )


def _limits(case: _Case, untested: Mapping[str, str]) -> Iterable[str]:
    yield (
        "This is evidence about these attacks, these samples and these oracles, not a proof; "
        "another attack may see more."
    )
    yield "It says nothing about backups, or about copies of models or data kept elsewhere."
    yield f"The spread of retraining is known from {_count(case.oracles, 'oracle')}" + (
        "; with so few it is largely guessed." if case.oracles < _STANDARD_ORACLES else "."
    )
    if case.findings and all(one.comparison.untouched is None for one in case.findings):
        yield "Without the model before the removal it is not known what there was to forget."
    if case.guard is None:
        yield "Whether the answers to other people's samples are sound was not checked."
    for name, why in untested.items():
        yield f"Not tested: {words.surface(name)} ({why})."


def _needed(case: _Case) -> Iterable[str]:
    if not case.findings:
        yield "At least one attack on one surface that can be tested."
    more = max(_STANDARD_ORACLES, 2 * case.oracles)
    yield f"More oracles: {more} instead of {case.oracles}."
    factor = _samples_factor(case)
    if factor > 1:
        yield (
            f"More samples of {case.target} and of non-members: at least about {factor} times "
            "as many."
        )


def _samples_factor(case: _Case) -> int:
    """The error shrinks with the root of the number of samples, if it comes from samples.

    Every undecided test must tell its candidate from the untouched model; where nothing
    was seen at all, one test must be able to see a notable leak.
    """
    if case.undecided:
        return max(math.ceil(_FOR_POWER * _reach(one) ** 2) for one in case.undecided)
    if case.findings and case.blind:
        best = min(finding.comparison.smallest_visible for finding in case.findings)
        return math.ceil((best / NOTABLE_LEAK) ** 2)
    return 1


def _reach(finding: Finding) -> float:
    """Half of the wider interval, in units of the leak before the removal."""
    found = finding.comparison
    assert found.untouched_difference is not None
    assert found.reduction is not None
    widths = [high - low for low, high in map(ends, (found.difference, found.reduction))]
    return max(widths) / 2 / found.untouched_difference.value


_FOR_POWER = 2.0  # (z + z_0.8)^2 / z^2 lies between 1.7 and 2.1 for one to ten tests


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
