"""One thing that was checked, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """`holds` is None for what could not be checked."""

    name: str
    holds: bool | None
    sentence: str


def checked(name: str, wrong: Sequence[str], right: str) -> list[Check]:
    """One check for each thing that is wrong; one that says that all is right if there is none."""
    return [Check(name, False, sentence) for sentence in wrong] or [Check(name, True, right)]
