"""What to do after a rehearsal: remove, or try something that forgets more."""

from __future__ import annotations

from dataclasses import replace

from pfedul.audit.judge.rules import (
    FORGOTTEN,
    NOT_ENOUGH,
    NOTHING_TO_FORGET,
    OVER_FORGOTTEN,
    PARTLY,
)
from pfedul.audit.rehearsal import Rehearsal
from pfedul.unlearn.options import ForgetOptions
from pfedul.unlearn.repair import DISTIL

REQUIREMENTS = {
    "partly": (PARTLY, NOTHING_TO_FORGET, FORGOTTEN),
    "no-leak": (NOTHING_TO_FORGET, FORGOTTEN),
    "forgotten": (FORGOTTEN,),
}
"""What `--require` asks for -> the verdicts that meet it."""

ENOUGH_ROUNDS = 4
"""Repair rounds to begin with, where a removal went too far."""


def meets(verdict: str, required: str | None) -> bool:
    """Whether a verdict is at least what is required.

    >>> meets(PARTLY, None), meets(PARTLY, "partly"), meets(NOT_ENOUGH, "partly")
    (True, True, False)
    """
    return required is None or verdict in REQUIREMENTS[required]


def next_step(rehearsal: Rehearsal, verdict: str, run: str) -> str:
    """The command to give next, or two."""
    if verdict in (FORGOTTEN, NOTHING_TO_FORGET):
        return f"pfedul forget {run} {rehearsal.removal_words}, then pfedul report {run}"
    again = f"pfedul rehearse {run}"
    if verdict == NOT_ENOUGH:
        return f"{again} {rehearsal.removal_words} --level standard --oracles 4"
    options = _gentler(rehearsal) if verdict == OVER_FORGOTTEN else _stronger(rehearsal)
    return f"{again} {replace(rehearsal, options=options).removal_words}"


def _gentler(rehearsal: Rehearsal) -> ForgetOptions:
    """Ordinary rounds of the others bring back what retraining would have kept."""
    options = rehearsal.options
    return replace(options, repair_rounds=max(ENOUGH_ROUNDS, 2 * options.repairs))


def _stronger(rehearsal: Rehearsal) -> ForgetOptions:
    """Full exclusion without a teacher that knew the targets; after that only retraining."""
    options, plain = rehearsal.options, ForgetOptions(seed=rehearsal.options.seed)
    taught = options.repairs > 0 and options.repair_kind == DISTIL
    recorded = "contributions" in rehearsal.run.settings.records
    if not recorded or (options.excludes and not taught):
        return replace(plain, method="retrain")
    return plain
