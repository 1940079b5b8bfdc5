"""A verdict, and what it is made from: tests by name, the check of honest answers, the trigger."""

from __future__ import annotations

from dataclasses import dataclass, field

from pfedul.audit.attacks.base import Estimate
from pfedul.audit.attacks.intervals import Interval
from pfedul.audit.judge.paired_test import PairedTest

FORGOTTEN = "forgotten"
PARTLY = "partly forgotten"
NOT_FORGOTTEN = "not forgotten"
OVER_FORGOTTEN = "over-forgotten"
NOTHING_TO_FORGET = "nothing measurable to forget"
NOT_ENOUGH = "not enough evidence"

VERDICTS = (FORGOTTEN, PARTLY, NOT_FORGOTTEN, OVER_FORGOTTEN, NOTHING_TO_FORGET, NOT_ENOUGH)

TOLERATED_DISTANCE = 2.0
"""Times the largest distance between two oracles: a candidate further off answers oddly."""


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
