"""What to do after a rehearsal: remove, rehearse another removal, or look more closely."""

from __future__ import annotations

from dataclasses import replace

from pfedul.audit.judge.rules import (
    FORGOTTEN,
    NOT_ENOUGH,
    NOTHING_TO_FORGET,
    OVER_FORGOTTEN,
    PARTLY,
)
from pfedul.audit.levels import LEVELS
from pfedul.audit.rehearsal import Rehearsal, level_words
from pfedul.base.names import DISTIL, ORDINARY
from pfedul.unlearn.inspection import share_of
from pfedul.unlearn.methods.retrain import RETRAIN
from pfedul.unlearn.options import ForgetOptions

REQUIREMENTS = {
    "partly": (PARTLY, NOTHING_TO_FORGET, FORGOTTEN),
    "no-leak": (NOTHING_TO_FORGET, FORGOTTEN),
    "forgotten": (FORGOTTEN,),
}
"""What `--require` asks for -> the verdicts that meet it."""

ENOUGH_ROUNDS = 4
"""Repair rounds to begin with, where a removal went too far."""

NOTHING_LEFT = "no command; no level of rehearse looks more closely than this one"


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
    after = next_rehearsal(rehearsal, verdict)
    if after is None:
        return NOTHING_LEFT
    level = f" {level_words(after.level)}" if after.level.oracles else ""
    return f"pfedul rehearse {run} {after.removal_words}{level}"


def next_rehearsal(rehearsal: Rehearsal, verdict: str) -> Rehearsal | None:
    """Another removal at this level, or this one at a level with more oracles; None if neither."""
    if verdict == NOT_ENOUGH or rehearsal.options.entry == RETRAIN:
        return _closer(rehearsal)
    options = _gentler(rehearsal) if verdict == OVER_FORGOTTEN else _stronger(rehearsal)
    return replace(rehearsal, options=options)


def _closer(rehearsal: Rehearsal) -> Rehearsal | None:
    """The next level that trains more oracles."""
    levels = LEVELS["standard"], LEVELS["strict"]
    more = [level for level in levels if level.oracles > rehearsal.level.oracles]
    return replace(rehearsal, level=more[0]) if more else None


def _gentler(rehearsal: Rehearsal) -> ForgetOptions:
    """Further rounds of the others bring back what retraining would have kept."""
    options = rehearsal.options.settled(share_of(rehearsal.run, rehearsal.targets))
    return replace(options, repair_rounds=max(ENOUGH_ROUNDS, 2 * options.repairs))


def _stronger(rehearsal: Rehearsal) -> ForgetOptions:
    """The default; then the same without a teacher that knew the targets; then retraining."""
    options, plain = rehearsal.options, ForgetOptions(seed=rehearsal.options.seed)
    if "contributions" in rehearsal.run.settings.records:
        if not options.excludes:
            return plain
        if options.repairs and options.repair_kind == DISTIL:
            return replace(plain, repair=ORDINARY)
    return replace(plain, method=RETRAIN.name)
