"""The first screen: the verdict, what is claimed and what is not, four figures."""

from __future__ import annotations

from collections.abc import Callable

from pfedul.base.text import counted, extent, joined, number, span
from pfedul.report.blocks import Banner, Tile
from pfedul.report.material import NO_EVIDENCE, NOTHING_AT_ALL, Material
from pfedul.report.sections.cost import cheaper
from pfedul.report.sections.instant import gone_tile, is_instant

TONES = {
    "forgotten": "good",
    "partly forgotten": "mixed",
    "not forgotten": "bad",
    "over-forgotten": "bad",
}
"""Verdicts that are shown in another tone than "unknown"."""

MEANINGS = {
    "forgotten": "No test can distinguish the outcome from retraining without the client: it lies "
    "within the spread of retraining.",
    "partly forgotten": "Attackers learn less about the client than before, but more than after "
    "retraining.",
    "not forgotten": "The client's samples can be recognised as well as before, or nearly so.",
    "over-forgotten": "The client's samples stand out for being forgotten too hard: that, too, "
    "gives away who was there.",
    "nothing measurable to forget": "Even the model before the removal gave nothing away that "
    "these tests could see.",
    "not enough evidence": "The tests cannot distinguish forgotten from not forgotten; more "
    "evidence is needed.",
}

INSTANT_MEANINGS = {
    "forgotten": "No test sees the client any more, and most of what could be seen is certainly "
    "gone.",
    "partly forgotten": "Attackers learn less about the client than before, but still something.",
}
"""Where no retrained model was there to compare with."""

_APART = "There is evidence, but it is about other tensors than those in the run."
_TRACES = "That the shared model no longer carries traces of the client."


def banner(material: Material) -> Banner:
    """The verdict with its limits, or the plain statement that there is none."""
    wrong = tuple((material.run.get("chain") or {}).get("wrong") or ())
    if wrong:
        return _not_as_signed(wrong)
    if not material.evidence:
        return _without_evidence(material)
    if material.holds is False:
        return _of_other_tensors(material)
    verdict = material.evidence.get("verdict") or {}
    spoken = str(verdict.get("verdict", "not enough evidence"))
    return Banner(
        tone=TONES.get(spoken, "unknown"),
        word=spoken,
        meaning=_meaning(material, spoken),
        sentence=str(verdict.get("sentence", "")),
        standing=standing(material),
        claimed=tuple(verdict.get("reasons") or ()),
        not_claimed=tuple(verdict.get("limits") or ()),
        needed=tuple(verdict.get("needed") or ()),
        tiles=_tiles(material, gone_tile, _tests_tile, _power_tile, _kept_tile, _cost_tile),
    )


def _meaning(material: Material, verdict: str) -> str:
    known = MEANINGS | INSTANT_MEANINGS if is_instant(material.evidence) else MEANINGS
    return known.get(verdict, MEANINGS["not enough evidence"])


def _not_as_signed(wrong: tuple[str, ...]) -> Banner:
    """Claims nothing at all: somebody has changed what the run says."""
    return Banner(
        tone="bad",
        word="not as it was signed",
        meaning="What this run says of itself is not what the operator's key signed.",
        sentence=wrong[0],
        standing="Nothing on this page can be relied on.",
        claimed=(),
        not_claimed=wrong,
        needed=("What 'pfedul verify' says of the run, and a backup from before the change.",),
        tiles=(),
    )


def _of_other_tensors(material: Material) -> Banner:
    """Claims nothing about the run: the rehearsal tested other tensors."""
    verdict = material.evidence.get("verdict") or {}
    return Banner(
        tone="unknown",
        word="evidence does not apply",
        meaning=_APART,
        sentence="The verdict on the tensors that were tested was "
        f"“{verdict.get('verdict')}”. Nothing is known about those in the run.",
        standing=standing(material),
        claimed=_done(material),
        not_claimed=(_TRACES, *(verdict.get("limits") or ())),
        needed=("An audit of the run as it is (pfedul audit).",),
        tiles=_tiles(material, _kept_tile, _cost_tile),
    )


def _without_evidence(material: Material) -> Banner:
    return Banner(
        tone="unknown",
        word="no evidence",
        meaning="Nothing was measured, so nothing is claimed about what the model remembers.",
        sentence=NO_EVIDENCE if material.request else NOTHING_AT_ALL,
        standing=standing(material),
        claimed=_done(material),
        not_claimed=(_TRACES,),
        needed=("A rehearsal (pfedul rehearse) before a removal, or pfedul audit after it.",),
        tiles=_tiles(material, _kept_tile),
    )


def _done(material: Material) -> tuple[str, ...]:
    """What is known without any test."""
    if not material.request:
        return ()
    layers = (material.plan or {}).get("layers") or ()
    chosen = counted(sum(bool(layer["selected"]) for layer in layers), "shared layer")
    return (
        f"What the run folder held of {joined(material.targets)} was erased.",
        f"The removal corrected {chosen}.",
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
        True: "This holds for the tensors of the run: the tested ones have the same hashes.",
        False: "This does not hold for the tensors of the run: they are not those tested.",
        None: "It was not checked whether the tensors of the run are those tested.",
    }[material.holds]


def _tiles(material: Material, *makers: Callable[[Material], Tile | None]) -> tuple[Tile, ...]:
    return tuple(tile for make in makers if (tile := make(material)) is not None)


def _tests_tile(material: Material) -> Tile | None:
    tests = material.tests()
    if not tests:
        return None
    silent = sum(test["finding"] not in {"leak", "reduced leak", "below"} for test in tests)
    oracles = counted(len(material.evidence.get("oracles") or ()), "retrained model")
    other = "a coin toss" if is_instant(material.evidence) else oracles
    return Tile("Tests that see no leak", f"{silent} of {len(tests)}", f"compared with {other}")


def _power_tile(material: Material) -> Tile | None:
    seen = [test.get("smallest_visible") for test in material.tests()]
    if all(value is None for value in seen):
        return None
    hint = "in AUC, test by test; smaller ones stay unseen"
    return Tile("Smallest leak visible", extent(seen), hint)


def _kept_tile(material: Material) -> Tile | None:
    pps = material.outcome.get("pps")
    if pps is None:
        return None
    ends = span(material.outcome.get("pps_interval"))
    return Tile("Accuracy kept by others (PPS)", number(pps), f"1 is all; {ends or 'no interval'}")


def _cost_tile(material: Material) -> Tile | None:
    times = cheaper(material)
    if times is None:
        return None
    return Tile(
        "Cost against retraining", f"1 / {times:,.0f}", "in CPU time, rehearsal not counted"
    )
