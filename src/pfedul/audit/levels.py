"""How much an audit may spend."""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.errors import PfedulError


@dataclass(frozen=True)
class Level:
    """How much an audit spends: oracles, and unlearned models (the candidate and its twins)."""

    name: str
    oracles: int
    unlearned: int
    summary: str


_LEVELS = (
    Level("instant", 0, 1, "no oracle: before and after, on a random split; a few forward passes"),
    Level("quick", 2, 1, "2 oracles: a first look"),
    Level("standard", 4, 1, "4 oracles: the spread of retraining is known"),
    Level("strict", 8, 8, "8 oracles and 8 unlearned models: U-LiRA, KLoM, forgetting score"),
)
LEVELS = {level.name: level for level in _LEVELS}


def level_of(name: str | None, oracles: int | None) -> Level:
    """A level by name, with another number of oracles if one is given.

    Without a name it is `instant`, or `standard` if a number of oracles is given.

    >>> level_of("strict", 10).unlearned, level_of("quick", 1).oracles, level_of(None, 3).name
    (10, 1, 'standard')
    """
    name = name or ("instant" if oracles is None else "standard")
    if name not in LEVELS:
        raise PfedulError(f"The level is one of {', '.join(LEVELS)}, not '{name}'.")
    chosen = LEVELS[name]
    if oracles is None:
        return chosen
    if not chosen.oracles:
        raise PfedulError(f"The level {name} has no oracles; leave out their number.")
    if oracles < 1:
        raise PfedulError(f"An audit needs at least one oracle, not {oracles}.")
    return Level(name, oracles, oracles if chosen.unlearned > 1 else 1, chosen.summary)
