"""How far answers are from the oracles', next to how far two oracles are from each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from pfedul.audit.ask.answers import Answers
from pfedul.audit.attacks.arrays import Array
from pfedul.audit.attacks.base import Estimate, averaged
from pfedul.audit.attacks.checks import distance_attack
from pfedul.audit.attacks.intervals import DRAWS

Row = dict[str, Any]


def distances(
    candidate: Answers, oracles: Sequence[Answers], untouched: Answers | None
) -> list[Row]:
    """Divergence and agreement with the oracles, next to that between two oracles."""
    return [
        {
            "samples": kind,
            **_distance(candidate, oracles, kind),
            "untouched": None if untouched is None else _distance(untouched, oracles, kind),
            "between_oracles": between_oracles(oracles, kind),
        }
        for kind in _ANSWERED
    ]


def _distance(model: Answers, oracles: Sequence[Answers], kind: str) -> Row:
    kl, agreement = distance_figures(model, oracles, kind)
    return {"kl": kl.as_json(), "agreement": agreement.as_json()}


def distance_figures(
    model: Answers, oracles: Sequence[Answers], kind: str
) -> tuple[Estimate, Estimate]:
    """Divergence and agreement, averaged over the oracles."""
    found = [
        distance_attack(_ANSWERED[kind](oracle), _ANSWERED[kind](model), draws=DRAWS)
        for oracle in oracles
    ]
    divergences, agreements = zip(*found, strict=True)
    return averaged(divergences), averaged(agreements)


def between_oracles(oracles: Sequence[Answers], kind: str) -> Row | None:
    """The least and the largest distance between two oracles; None for fewer than two."""
    pairs = [distance_figures(one, [other], kind) for one, other in permutations(oracles, 2)]
    if not pairs:
        return None
    ends = [[float(f(pair[place].value for pair in pairs)) for f in (min, max)] for place in (0, 1)]
    return {"kl": ends[0], "agreement": ends[1]}


def _through_others(model: Answers) -> Array:
    """Answers to the targets' training samples, through every remaining model in turn."""
    name = "remaining" if "remaining" in model.views else "shared"
    return np.concatenate([view.members for view in model.views[name]])


_ANSWERED: dict[str, Callable[[Answers], Array]] = {
    "target": _through_others,
    "remaining": lambda model: np.concatenate(list(model.own_train.values())),
    "test": lambda model: np.concatenate(list(model.own_test.values())),
}
