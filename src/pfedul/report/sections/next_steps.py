"""What to do next, as the shell says it."""

from __future__ import annotations

import shlex

from pfedul.audit.advice import (
    Removed,
    Step,
    Trial,
    after_rehearsal,
    after_removal,
    given_options,
)
from pfedul.audit.judge.rules import NOT_ENOUGH, VERDICTS
from pfedul.audit.levels import Level
from pfedul.personalization import PERSONALIZATIONS
from pfedul.report.material import Json, Material
from pfedul.unlearn.options import usual_rounds


def next_steps(material: Material) -> tuple[Step, ...]:
    """The first is the one to take; the others are choices."""
    run = shlex.quote(str(material.run.get("run", "RUN")))
    if (material.run.get("chain") or {}).get("wrong"):
        words = "Rely on nothing here. Ask what differs, and go back to a backup from before."
        return (Step(words, (f"pfedul verify {run}",)),)
    if material.request:
        return tuple(after_removal(_removed(material), _verdict(material), run))
    if material.evidence:
        return tuple(after_rehearsal(_trial(material), _verdict(material), run))
    words = "Before a removal, rehearse it on a copy. It shows what would be forgotten."
    return (Step(words, (f"pfedul rehearse {run} --client ID",)),)


def _verdict(material: Material) -> str:
    """Evidence about other tensors decides nothing about these."""
    verdict = (material.evidence.get("verdict") or {}).get("verdict")
    known = verdict in VERDICTS and material.holds is not False
    return str(verdict) if known else NOT_ENOUGH


def _removed(material: Material) -> Removed:
    at_nodes = "traffic" in material.run
    oracles = _level(material.evidence).oracles if material.holds else 0
    return Removed(material.targets, material.request["request"], oracles, not at_nodes)


def _level(evidence: Json) -> Level:
    count = len(evidence.get("oracles") or ())
    return Level(str(evidence.get("level", "instant")), count, 1, "")


def _trial(material: Material) -> Trial:
    usual = _usual(material)
    options = given_options(material.options, usual)
    records = tuple(material.run.get("records") or ())
    return Trial(material.targets, options, _level(material.evidence), records, usual)


def _usual(material: Material) -> int:
    """How many rounds of repair the removal had without a number."""
    samples = {row["client"]: row["train_samples"] for row in material.run.get("clients") or ()}
    own = sum(samples.get(target, 0) for target in material.targets)
    kind = material.run.get("personalization")
    shares_head = kind is not None and PERSONALIZATIONS.parse(str(kind))[0].shares_head
    return usual_rounds(own / sum(samples.values()) if own else 0.0, shares_head)
