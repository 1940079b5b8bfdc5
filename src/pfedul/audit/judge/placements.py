"""Placements: DeLong's view of an AUC, as one number for each sample (see `paired_test`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pfedul.audit.attacks.arrays import Array, finite
from pfedul.audit.attacks.roc import share_below
from pfedul.errors import PfedulError


@dataclass(frozen=True, eq=False)
class Scores:
    """Suspicion of membership under one model, higher = more like a member.

    A view is one model through which the attacker looks (a remaining client's); a fold
    is one choice of reference models (RMIA), otherwise there is one. All models that are
    compared have the same samples and views; folds may differ in number.
    """

    members: Array
    nonmembers: Array

    def __post_init__(self) -> None:
        for name in ("members", "nonmembers"):
            values = finite(f"scores of {name}", getattr(self, name), axes=3)
            object.__setattr__(self, name, values)
            if values.shape[2] < 2:
                raise PfedulError(f"A comparison needs two {name} or more, to know its error.")
        if self.members.shape[:2] != self.nonmembers.shape[:2]:
            raise PfedulError("Members and non-members must be scored in the same folds and views.")


@dataclass(frozen=True, eq=False)
class Placed:
    """Placements of members and non-members; both have the AUC as their mean."""

    members: Array
    nonmembers: Array

    def __sub__(self, other: Placed) -> Placed:
        return Placed(self.members - other.members, self.nonmembers - other.nonmembers)

    @property
    def value(self) -> float:
        return float(self.members.mean())

    @property
    def variance(self) -> float:
        groups = (self.members, self.nonmembers)
        return float(sum(group.var(ddof=1) / len(group) for group in groups))


def placed(scores: Scores, worst: bool) -> Placed:
    """Placements averaged over folds and views; if `worst` those of the most revealing view.

    The error of a maximum is taken for that of the view where it is: rather too wide.
    """
    by_view = scores.members.swapaxes(0, 1), scores.nonmembers.swapaxes(0, 1)
    views = [
        mean_placed([_placements(*fold) for fold in zip(*view, strict=True)])
        for view in zip(*by_view, strict=True)
    ]
    return max(views, key=lambda view: view.value) if worst else mean_placed(views)


def _placements(members: Array, nonmembers: Array) -> Placed:
    return Placed(share_below(members, nonmembers), 1 - share_below(nonmembers, members))


def mean_placed(parts: Sequence[Placed]) -> Placed:
    return Placed(
        np.mean([part.members for part in parts], axis=0),
        np.mean([part.nonmembers for part in parts], axis=0),
    )
