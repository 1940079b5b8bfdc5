"""The first page: the verdict with one number, what was done, its cost, its limits, what to do."""

from __future__ import annotations

from dataclasses import replace

from pfedul.audit.judge.rules import (
    FORGOTTEN,
    NOT_ENOUGH,
    NOT_FORGOTTEN,
    NOTHING_TO_FORGET,
    OVER_FORGOTTEN,
    PARTLY,
)
from pfedul.base.text import joined, number
from pfedul.report.blocks import Banner, Figure
from pfedul.report.looks import DISTRUST, UNKNOWN, look_of
from pfedul.report.material import NO_EVIDENCE, NOTHING_AT_ALL, Json, Material
from pfedul.report.sections.facts import facts_of
from pfedul.report.sections.instant import is_instant
from pfedul.report.sections.next_steps import next_steps

MEANINGS = {
    FORGOTTEN: "No test can distinguish the outcome from retraining without the client: it lies "
    "within the spread of retraining.",
    PARTLY: "Attackers learn less about the client than before, but more than after retraining.",
    NOT_FORGOTTEN: "The client's samples can be recognised as well as before, or nearly so.",
    OVER_FORGOTTEN: "The client's samples stand out for being forgotten too hard: that, too, "
    "gives away who was there.",
    NOTHING_TO_FORGET: "Even the model before the removal gave nothing away that "
    "these tests could see.",
    NOT_ENOUGH: "The tests cannot distinguish forgotten from not forgotten; more "
    "evidence is needed.",
}

INSTANT_MEANINGS = {
    FORGOTTEN: "No test sees the client any more, and most of what could be seen is certainly "
    "gone.",
    PARTLY: "Attackers learn less about the client than before, but still something.",
}
"""Where no retrained model was there to compare with."""

_TRACES = "That the shared model no longer carries traces of the client."


def banner(material: Material) -> Banner:
    """The verdict with its limits, or the plain statement that there is none."""
    verdict = material.evidence.get("verdict") or {}
    word = str(verdict.get("verdict", NOT_ENOUGH))
    judged = Banner(
        look=look_of(word),
        word=word,
        meaning=_meaning(material, word),
        standing=standing(material),
        figure=_figure(material, word),
        facts=facts_of(material),
        not_claimed=tuple(verdict.get("limits") or ()),
        steps=next_steps(material),
    )
    wrong = tuple((material.run.get("chain") or {}).get("wrong") or ())
    if wrong:
        return _not_as_signed(judged, wrong)
    if not material.evidence:
        return _without_evidence(judged, material)
    return judged if material.holds is not False else _of_other_tensors(judged)


def _meaning(material: Material, verdict: str) -> str:
    known = MEANINGS | INSTANT_MEANINGS if is_instant(material.evidence) else MEANINGS
    return known.get(verdict, MEANINGS[NOT_ENOUGH])


def _figure(material: Material, verdict: str) -> Figure | None:
    """The share of the leak that is gone; else the leak that would have been seen."""
    whose = joined(material.targets, "the client")
    removed = material.evidence.get("removed")
    if removed is not None and removed.get("value") is not None:
        if verdict == OVER_FORGOTTEN:
            return Figure(f"{100 * removed['value']:.0f} %", _too_much(whose))
        return Figure(_share(removed["value"]), _gone_words(removed, whose))
    seen = [test.get("smallest_visible") for test in material.tests()]
    known = [value for value in seen if value is not None]
    if verdict != NOTHING_TO_FORGET or not known:
        return None
    words = (
        f"A smaller leak could have been missed by one of the {len(known)} tests: AUC above a coin "
        "toss, where 0.5 more is certainty. None was seen before the removal, so there is no share "
        "of it that is gone."
    )
    return Figure(number(max(known), 2), words)


def _gone_words(removed: Json, whose: str) -> str:
    return (
        f"of what an attacker could recognise of {whose} is gone. {_between(removed)} Before the "
        f"removal an attacker could tell samples that {whose} trained with from samples that "
        "nobody trained with; this is the share of that advantage that the removal took away."
    )


def _too_much(whose: str) -> str:
    return (
        f"of what an attacker could recognise of {whose} is gone, where 100 % would be all of it. "
        "Too much was taken away: samples now stand out because the model knows them less than "
        "samples that nobody trained with."
    )


def _between(removed: Json) -> str:
    low, high = removed.get("interval") or (None, None)
    if low is None or high is None:
        return "How sure that is was not measured."
    lower = "none of it" if low <= 0 else _share(low)
    upper = "all of it" if high >= 1 else _share(high)
    return f"The true share lies between {lower} and {upper}, with 95 % confidence."


def _share(value: float) -> str:
    """A share of what was there: chance can take the estimate below none and above all.

    >>> _share(0.894), _share(1.43), _share(-0.1)
    ('89 %', '100 %', '0 %')
    """
    return f"{100 * min(max(value, 0.0), 1.0):.0f} %"


def _not_as_signed(page: Banner, wrong: tuple[str, ...]) -> Banner:
    """Claims nothing at all: somebody has changed what the run says."""
    return replace(
        page,
        look=DISTRUST,
        word="not as it was signed",
        meaning="What this run says of itself is not what the operator's key signed.",
        standing="Nothing on this page can be relied on.",
        figure=None,
        facts=(),
        not_claimed=wrong,
    )


def _of_other_tensors(page: Banner) -> Banner:
    """Claims nothing about the run: the rehearsal tested other tensors."""
    return replace(
        page,
        look=UNKNOWN,
        word="evidence does not apply",
        meaning="There is evidence, but it is about other tensors than those in the run. The "
        f"verdict on those was “{page.word}”; nothing is known about these.",
        figure=None,
        not_claimed=(_TRACES, *page.not_claimed),
    )


def _without_evidence(page: Banner, material: Material) -> Banner:
    known = NO_EVIDENCE if material.request else NOTHING_AT_ALL
    return replace(
        page,
        look=UNKNOWN,
        word="no evidence",
        meaning=f"Nothing was measured, so nothing is claimed. {known}",
        figure=None,
        not_claimed=(_TRACES,),
    )


def standing(material: Material) -> str:
    """What the verdict is about: the tensors in the run, a rehearsal, or nothing."""
    who = joined(material.targets, "a client")
    if not material.request:
        rehearsed = "Rehearsed only. Nothing has been forgotten in this run yet."
        return rehearsed if material.evidence else ""
    if not material.evidence:
        return f"{who} was removed without a rehearsal."
    return {
        True: "This holds for the model in the run: its tensors have the hashes of those tested.",
        False: "This does not hold for the tensors of the run: they are not those tested.",
        None: "It was not checked whether the tensors of the run are those tested.",
    }[material.holds]
