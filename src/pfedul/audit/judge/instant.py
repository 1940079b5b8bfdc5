"""The verdict of the level `instant`: before and after the removal, on a random split, no oracle.

One row for each surface and attack, and one for all of them together (the mean leak). A row has
three exact tests (`leaks.py`): is there a leak before, is there one after, is the AUC after below
1/2; and a paired one, whether the change has to do with membership. All are corrected for the
number of rows (Holm), at 5 % in all before and after. Failing to see something proves little, so
"forgotten" needs an upper bound on what is left. The first rule that applies decides:

1. A leak after the removal: not forgotten; partly forgotten, where each such leak has become
   smaller beyond chance, by a tenth at least.
2. An AUC after the removal below 1/2: over-forgotten.
3. Not enough evidence, if there was a leak before and what is left of it cannot be bounded:
   the interval of the share left must end below `MOST_LEFT`, over all surfaces and on each that
   leaked before; on a single surface it is enough if the interval of the AUC after ends below
   1/2 + `SMALL_LEAK`.
4. Without a leak before: nothing measurable to forget if on every surface a leak of `NOTABLE_LEAK`
   would have been seen with 80 % probability, else not enough evidence.
5. Otherwise: forgotten.

The share over all surfaces is that of their mean leak: a surface counts by how much it gave away.
Each surface's own share stands beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from pfedul.audit.attacks.arrays import Array
from pfedul.audit.attacks.intervals import Interval
from pfedul.audit.judge.leaks import NO_LEAK, Draw, Leak, holm, mean_leak, share_left
from pfedul.audit.judge.paired_test import MATERIAL_SHARE
from pfedul.audit.judge.rules import (
    FORGOTTEN,
    MOST_LEFT,
    NOT_ENOUGH,
    NOT_FORGOTTEN,
    NOTABLE_LEAK,
    NOTHING_TO_FORGET,
    OVER_FORGOTTEN,
    PARTLY,
)

SMALL_LEAK = 0.05
"""In AUC; what is left of a surface's leak may be that much, whatever the share."""

ERROR_RATE = 0.05
_POWER = NormalDist().inv_cdf(0.8)

Place = tuple[str, str]
"""A surface and an attack."""
Seen = Mapping[Place, Array]
"""Scores [views, samples] of one model, members first."""


class PValues(NamedTuple):
    """For a leak before, a leak after, the contrary after, and a leak that became smaller."""

    before: float
    after: float
    below: float
    change: float


@dataclass(frozen=True, eq=False)
class Row:
    """One attack on one surface, before and after; p-values are corrected for the number of rows.

    `smallest_visible` is the leak that the test after the removal sees with 80 % probability.
    """

    surface: str
    attack: str
    before: Leak
    after: Leak
    p: PValues
    smallest_visible: float

    @cached_property
    def left(self) -> tuple[float, Interval] | None:
        return share_left(self.before, self.after)

    @property
    def leaked(self) -> bool:
        return self.p.before <= ERROR_RATE

    @property
    def smaller(self) -> bool:
        """Beyond chance, and no mere trifle."""
        fallen = self.before.size - self.after.size
        return self.p.change <= ERROR_RATE and fallen > MATERIAL_SHARE * self.before.size

    @property
    def bounded(self) -> bool:
        small = self.after.interval[1] < NO_LEAK + SMALL_LEAK
        return small or (self.left is not None and self.left[1][1] < MOST_LEFT)

    @property
    def finding(self) -> str:
        """In the words of the other levels' tests."""
        if self.p.after <= ERROR_RATE / 2:
            return "reduced leak" if self.leaked and self.smaller else "leak"
        if self.p.below <= ERROR_RATE / 2:
            return "below"
        if not self.leaked:
            return "nothing to see"
        return "within" if self.bounded else "unclear"


@dataclass(frozen=True, eq=False)
class Instant:
    """All rows, and what follows from them."""

    rows: Sequence[Row]

    @cached_property
    def before(self) -> Leak:
        return mean_leak([row.before for row in self.rows])

    @cached_property
    def after(self) -> Leak:
        return mean_leak([row.after for row in self.rows])

    @cached_property
    def left(self) -> tuple[float, Interval] | None:
        """The share of the mean leak that is left; None if there was none that could be seen."""
        return share_left(self.before, self.after)

    @property
    def removed(self) -> tuple[float, Interval] | None:
        """The share of the mean leak that is gone."""
        return None if self.left is None else gone(self.left)

    @property
    def smallest_visible(self) -> float:
        """On the surface where least can be seen, by its best attack."""
        surfaces = {row.surface for row in self.rows}
        return max(
            min(row.smallest_visible for row in self.rows if row.surface == surface)
            for surface in surfaces
        )

    @property
    def leaked(self) -> bool:
        return self.left is not None or any(row.leaked for row in self.rows)

    @property
    def bounded(self) -> bool:
        settled = all(row.bounded for row in self.rows if row.leaked)
        return settled and self.left is not None and self.left[1][1] < MOST_LEFT

    def verdict(self) -> str:
        found = {row.finding for row in self.rows}
        for finding, verdict in _ACCUSED_OF:
            if finding in found:
                return verdict
        if self.leaked:
            return FORGOTTEN if self.bounded else NOT_ENOUGH
        return NOTHING_TO_FORGET if self.smallest_visible <= NOTABLE_LEAK else NOT_ENOUGH

    @property
    def strongest(self) -> Row:
        """The row that is held against the removal most, else the one with most to find."""
        accused = [row for row in self.rows if row.finding in dict(_ACCUSED_OF)]
        unclear = [row for row in self.rows if row.finding == "unclear"]
        if accused:
            return max(accused, key=lambda row: (_gravity(row), abs(row.after.size)))
        return max(unclear or self.rows, key=lambda row: row.before.size)

    @property
    def samples_factor(self) -> int:
        """About how many times as many samples would decide; errors shrink with the root."""
        if self.left is None:
            return max(2, math.ceil((self.smallest_visible / NOTABLE_LEAK) ** 2))
        half = (self.left[1][1] - self.left[1][0]) / 2
        return max(2, math.ceil((half / MOST_LEFT) ** 2))


_ACCUSED_OF = (("leak", NOT_FORGOTTEN), ("reduced leak", PARTLY), ("below", OVER_FORGOTTEN))


def _gravity(row: Row) -> int:
    return -[finding for finding, _ in _ACCUSED_OF].index(row.finding)


def gone(left: tuple[float, Interval]) -> tuple[float, Interval]:
    """The share that is gone, from the share that is left.

    >>> gone((0.25, (-0.25, 0.5)))
    (0.75, (0.5, 1.25))
    """
    share, (low, high) = left
    return 1 - share, (1 - high, 1 - low)


def compare(before: Seen, after: Seen, draw: Draw) -> Instant:
    """The model before the removal and the one after it, seen on the same samples."""
    pairs = [(Leak.of(before[place], draw), Leak.of(after[place], draw)) for place in before]
    tests = np.array([_p_values(*pair, draw) for pair in pairs])
    corrected = np.stack([holm(column) for column in tests.T], axis=1).tolist()
    return Instant(
        [
            Row(*place, *pair, PValues(*p_values), smallest_visible(pair[1], len(pairs)))
            for place, pair, p_values in zip(before, pairs, corrected, strict=True)
        ]
    )


def _p_values(before: Leak, after: Leak, draw: Draw) -> PValues:
    high, low = draw.p_values(after.ranks)
    change = draw.p_values(before.ranks - after.ranks)[0]
    return PValues(draw.p_values(before.ranks)[0], high, low, change)


def smallest_visible(after: Leak, tests: int) -> float:
    """The leak that one of so many tests sees with 80 % probability."""
    reach = NormalDist().inv_cdf(1 - ERROR_RATE / 2 / tests)
    return min(NO_LEAK, (reach + _POWER) * after.error)
