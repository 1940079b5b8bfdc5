"""Findings, and the rules that turn them into a verdict; the first that applies decides.

1. With fewer than two oracles, or without a test: not enough evidence.
2. A leak anywhere, a working trigger included: not forgotten. A leak that has become
   smaller, and none that has not: partly forgotten.
3. Otherwise, where the candidate stands out *below* the oracles: over-forgotten. The
   logistic attack fits its own direction and takes that for a leak; on a surface where
   another attack says "below", its leak is that very thing and counts as such.
4. Otherwise, a surface on which the untouched model differs from the oracles, while the
   candidate differs from neither under any attack: not enough evidence. Where another
   attack on the same surface settles it, the weaker one adds no doubt.
5. Otherwise, where the untouched model differs from the oracles nowhere: nothing
   measurable to forget. That is a useful answer, not a failed audit.
6. Otherwise forgotten, within the spread of retraining, if what is left of the leak is bounded:
   the interval of the overall share that is left ends below `MOST_LEFT`; else not enough evidence.

For rule 5, and after the fact (without the untouched model) for rule 6, nothing has shown
what the tests can see. Then on every surface one of them must be able to see a leak of 0.15 in
AUC, and exclude one: the interval of the leak in question ends below that. Else there is not enough
evidence. Nor is there for rule 5 with fewer than three oracles.

Two checks turn what rules 5 and 6 give into "partly forgotten": U-LiRA distinguishes
unlearned from retrained models; or, for rule 6, the answers on other people's samples are far
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
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pfedul.audit.attacks import ATTACKS
from pfedul.audit.attacks.base import Estimate
from pfedul.audit.attacks.intervals import Interval
from pfedul.audit.judge.paired_test import PairedTest, overall_removed

FORGOTTEN = "forgotten"
PARTLY = "partly forgotten"
NOT_FORGOTTEN = "not forgotten"
OVER_FORGOTTEN = "over-forgotten"
NOTHING_TO_FORGET = "nothing measurable to forget"
NOT_ENOUGH = "not enough evidence"

VERDICTS = (FORGOTTEN, PARTLY, NOT_FORGOTTEN, OVER_FORGOTTEN, NOTHING_TO_FORGET, NOT_ENOUGH)

TOLERATED_DISTANCE = 2.0
"""Times the largest distance between two oracles: a candidate further off answers oddly."""

NOTABLE_LEAK = 0.15
"""In AUC; what an audit that found nothing must have been able to see."""

MOST_LEFT = 1 / 2
"""Of the leak, at the upper end of the interval of what is left."""

FEWEST_ORACLES = 2
FEWEST_FOR_NOTHING = 3
"""Two oracles that agree by luck, or differ by it, do not show that there was nothing."""
STANDARD_ORACLES = 4


@dataclass(frozen=True)
class Finding:
    """What one attack found on one surface; both by the names of the evidence document."""

    surface: str
    attack: str
    test: PairedTest

    @property
    def finding(self) -> str:
        return self.test.finding


@dataclass(frozen=True)
class Guard:
    """Are the answers on other people's test samples near an oracle's?

    Noise on all answers hides every member, and so does damage. Neither is forgetting.
    """

    kl: Estimate
    between_oracles: Interval | None

    @property
    def broken(self) -> bool:
        """With its whole interval further off than oracles are from each other."""
        if self.between_oracles is None or self.kl.interval is None:
            return False
        return self.kl.interval[0] > TOLERATED_DISTANCE * self.between_oracles[1]


@dataclass(frozen=True)
class TriggerFinding:
    """How often the trigger works; only in runs that were trained with one."""

    candidate: Estimate
    oracles: tuple[Estimate, ...]
    untouched: Estimate | None = None

    @property
    def finding(self) -> str:
        """A leak where the interval lies above that of every oracle."""
        if self._works(self.candidate):
            return "leak"
        if self.untouched is not None and not self._works(self.untouched):
            return "nothing to see"
        return "within"

    def _works(self, figure: Estimate) -> bool:
        return all(figure.ends[0] > oracle.ends[1] for oracle in self.oracles)


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

    def as_json(self) -> dict[str, str | list[str]]:
        """As in the evidence document."""
        lists = {name: list(getattr(self, name)) for name in ("reasons", "limits", "needed")}
        return {"verdict": self.verdict, "sentence": self.sentence, **lists}


def passes(verdict: Verdict, held_out: bool = False) -> bool:
    """Was it shown to be forgotten? For a held-out oracle it is enough that there was nothing.

    A held-out oracle never held anything of the target: where nothing can be measured
    it was rightly not accused. A candidate without anything to measure showed nothing.
    """
    return verdict.verdict == FORGOTTEN or (held_out and verdict.verdict == NOTHING_TO_FORGET)


def accuses(verdict: Verdict) -> bool:
    """Was something held against the model? Lack of evidence is not an accusation."""
    return verdict.verdict in (PARTLY, NOT_FORGOTTEN, OVER_FORGOTTEN)


@dataclass(frozen=True)
class VerdictRules:
    """All that is known of a model, and the rules."""

    findings: Sequence[Finding]
    oracles: int
    target: str = "the client"
    guard: Guard | None = None
    ulira: Estimate | None = None
    backdoor: TriggerFinding | None = None
    held_out: Sequence[Verdict] = ()

    def verdict(self) -> str:
        if self.oracles < FEWEST_ORACLES or not self.findings:
            return NOT_ENOUGH
        found = {finding.finding for finding in self.standing} | self.trigger
        for finding, verdict in _ACCUSED_OF:
            if finding in found:
                return verdict
        if self.fallen or self.undecided or self.blind:
            return NOT_ENOUGH
        verdict = FORGOTTEN if "within" in self.seen else NOTHING_TO_FORGET
        if verdict == NOTHING_TO_FORGET and self.oracles < FEWEST_FOR_NOTHING:
            return NOT_ENOUGH
        if not self.doubted(verdict):
            return NOT_ENOUGH if self.unbounded else verdict
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
        return [
            one for one in accused if not ATTACKS[one.attack].two_sided or one.surface not in turned
        ]

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
        """Nothing shows, by the untouched model or by power, that the tests can see something."""
        settled = any(one.finding == "within" and one.test.untouched for one in self.findings)
        if self.accusing or settled:
            return False
        return self.dimmest > NOTABLE_LEAK

    @property
    def dimmest(self) -> float:
        """The leak that the best test of a surface may miss, on the surface where that is most."""
        surfaces = {one.surface for one in self.findings}
        return max(
            min(_may_be_missed(one.test) for one in self.findings if one.surface == surface)
            for surface in surfaces
        )

    @cached_property
    def removed(self) -> Estimate | None:
        """The share of the leak that is gone, over all tests that saw one."""
        return overall_removed([finding.test for finding in self.findings])

    @property
    def unbounded(self) -> bool:
        """There was a leak, no test sees one now, and still much of it may be left."""
        if self.accusing or not any(finding.test.leaked for finding in self.findings):
            return False
        return self.removed is None or 1 - self.removed.ends[0] >= MOST_LEFT

    def doubted(self, verdict: str) -> bool:
        distinguishable = self.ulira is not None and self.ulira.ends[0] > self.ulira.metric.best
        odd = self.guard is not None and self.guard.broken
        return distinguishable or (odd and verdict == FORGOTTEN)

    @property
    def strongest(self) -> Finding:
        """The accusation that lies furthest out, else the test that had most to find."""
        candidates = self.standing or self.fallen or self.undecided or self.findings
        return max(candidates, key=_weight)


_ACCUSED_OF = (("leak", NOT_FORGOTTEN), ("reduced leak", PARTLY), ("below", OVER_FORGOTTEN))
_BY_GRAVITY = ("nothing to see", "unclear", "within", "below", "reduced leak", "leak")


def _distance_from_zero(finding: Finding) -> float:
    low, high = finding.test.difference.ends
    return max(low, -high)


def _weight(finding: Finding) -> tuple[int, float]:
    """First by gravity, then by size: of the difference, or of the leak before the removal."""
    found = finding.test
    gravity = _BY_GRAVITY.index(found.finding)
    if gravity > _BY_GRAVITY.index("within"):
        return gravity, abs(found.difference.value)
    return gravity, (found.untouched_difference or found.difference).value


def _may_be_missed(test: PairedTest) -> float:
    """A leak that is too small for the test's power, or that its interval does not exclude."""
    asked = test.difference if test.untouched_difference is None else test.untouched_difference
    return max(test.smallest_visible, asked.ends[1])


def samples_factor(rules: VerdictRules) -> int:
    """The error shrinks with the root of the number of samples, if it comes from samples.

    Every undecided test must tell its candidate from the untouched model; where nothing
    was seen at all, one test of each surface must exclude a notable leak; else what is left must be
    bounded.
    """
    if rules.undecided:
        return max(math.ceil(_FOR_POWER * _reach(one) ** 2) for one in rules.undecided)
    if rules.findings and rules.blind:
        return math.ceil((rules.dimmest / NOTABLE_LEAK) ** 2)
    if rules.unbounded and rules.removed is not None:
        low, high = rules.removed.ends
        return max(2, math.ceil(((high - low) / 2 / MOST_LEFT) ** 2))
    return 1


def _reach(finding: Finding) -> float:
    """Half of the wider interval, in units of the leak before the removal."""
    found = finding.test
    assert found.untouched_difference is not None
    assert found.reduction is not None
    intervals = found.difference.ends, found.reduction.ends
    return max(high - low for low, high in intervals) / 2 / found.untouched_difference.value


_FOR_POWER = 2.0  # (z + z_0.8)^2 / z^2 lies between 1.7 and 2.1 for one to ten tests
