"""How much an audit spends: oracles to compare with, and unlearned models to compare."""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.errors import PfedulError


@dataclass(frozen=True)
class Level:
    """`unlearned` counts the candidate itself; the others are trained, with the targets, anew."""

    name: str
    oracles: int
    unlearned: int
    summary: str


LEVELS = {
    level.name: level
    for level in (
        Level("quick", 2, 1, "2 oracles: a first look"),
        Level("standard", 4, 1, "4 oracles: the spread of retraining is known"),
        Level("strict", 8, 8, "8 oracles and 8 unlearned models: U-LiRA, KLoM, forgetting score"),
    )
}


def level_of(name: str, oracles: int | None) -> Level:
    """A level by name, with another number of oracles if one is given.

    >>> level_of("strict", 10).unlearned, level_of("quick", 1).oracles
    (10, 1)
    """
    if name not in LEVELS:
        raise PfedulError(f"The level is one of {', '.join(LEVELS)}, not '{name}'.")
    chosen = LEVELS[name]
    if oracles is None:
        return chosen
    if oracles < 1:
        raise PfedulError(f"An audit needs at least one oracle, not {oracles}.")
    return Level(name, oracles, oracles if chosen.unlearned > 1 else 1, chosen.summary)
