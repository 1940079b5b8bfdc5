"""What a verdict is made from: comparisons by name, the check of honest answers, the backdoor."""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.audit.attacks.base import Figure
from pfedul.audit.attacks.intervals import Interval
from pfedul.audit.judge.paired_test import Comparison

TOLERATED_DISTANCE = 2.0
"""Times the largest distance between two oracles: a candidate further off answers oddly."""


@dataclass(frozen=True)
class Finding:
    """What one attack found on one surface; both by the names of the evidence document."""

    surface: str
    attack: str
    comparison: Comparison

    @property
    def finding(self) -> str:
        return self.comparison.finding


@dataclass(frozen=True)
class Guard:
    """Are the answers on other people's test samples near an oracle's?

    Noise on all answers hides every member, and so does damage. Neither is forgetting.
    """

    kl: Figure
    between_oracles: Interval | None

    @property
    def broken(self) -> bool:
        """With its whole interval further off than oracles are from each other."""
        if self.between_oracles is None or self.kl.interval is None:
            return False
        return self.kl.interval[0] > TOLERATED_DISTANCE * self.between_oracles[1]


@dataclass(frozen=True)
class Backdoor:
    """How often the trigger works; only in runs that were trained with one."""

    candidate: Figure
    oracles: tuple[Figure, ...]
    untouched: Figure | None = None

    @property
    def finding(self) -> str:
        """A leak where the interval lies above that of every oracle."""
        if self._works(self.candidate):
            return "leak"
        if self.untouched is not None and not self._works(self.untouched):
            return "nothing to see"
        return "within"

    def _works(self, figure: Figure) -> bool:
        return all(ends(figure)[0] > ends(oracle)[1] for oracle in self.oracles)


def ends(figure: Figure) -> Interval:
    """The interval of a figure; a figure without one is taken for exact."""
    return figure.interval if figure.interval is not None else (figure.value, figure.value)
