"""Attacks and surfaces in two sentences each, for a reader who meets them for the first time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pfedul.audit.ask.surfaces import SURFACES
from pfedul.audit.attacks import ATTACKS
from pfedul.base.text import sentence
from pfedul.report.blocks import Block, FactList, Heading, Text
from pfedul.report.material import Json

AUC = (
    "The figure of an attack is its AUC: given one sample that the target trained with and one "
    "that nobody trained with, how often the attack tells which is which. 0.5 is a coin toss, 1 "
    "is always right, and well below 0.5 gives as much away, turned around."
)


def explained(surfaces: Sequence[Json], attacks: Iterable[str]) -> list[Block]:
    """Where an attacker looks, with what was not tested; then how; then what the figure is."""
    return [
        Heading("Where an attacker looks"),
        FactList(tuple(_surface(surface) for surface in surfaces)),
        Heading("What an attacker does"),
        attack_words(attacks),
        Text(AUC),
    ]


def attack_words(attacks: Iterable[str]) -> FactList:
    """Each attack once."""
    return FactList(tuple(_attack(attack) for attack in dict.fromkeys(attacks)))


def _surface(row: Json) -> tuple[str, str]:
    """Old evidence may name what is not there any more: then its own words are shown."""
    known = {surface.name: surface.explanation for surface in SURFACES}
    words = known.get(row["name"]) or sentence(str(row.get("summary") or row.get("title") or "?"))
    if not row.get("available", True):
        words += f" Not tested: {row.get('reason')}."
    return str(row["name"]), words


def _attack(name: str) -> tuple[str, str]:
    if name not in {attack.name for attack in ATTACKS}:
        return name, "An attack of another package, which is not installed here."
    attack = ATTACKS[name]
    return name, attack.explanation or f"{sentence(attack.title)} {sentence(attack.summary)}"
