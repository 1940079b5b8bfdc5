"""What attackers can still tell, compared with retraining, and the controls of the audit."""

from __future__ import annotations

from pfedul.base.text import MISSING
from pfedul.report.blocks import Block, Heading, Section, Table, Text
from pfedul.report.material import NO_EVIDENCE, Json, Material
from pfedul.report.sections.comparison import comparison_blocks
from pfedul.report.sections.curves import distribution_blocks, relearn_blocks, roc_blocks
from pfedul.report.sections.measures import (
    backdoor_blocks,
    distance_blocks,
    measure_blocks,
    single_client_blocks,
)

_HOW = (
    "Each test lets an attacker guess which samples the target trained with, through one surface. "
    "The candidate is compared with oracles, which never saw the target: forgotten means that the "
    "attacker does no better than against them."
)
_AFTER = (
    "This evidence was made after the fact. The model before the removal is gone, so nothing "
    "can be said of how much was forgotten, only of what is left."
)


def attacks_section(material: Material) -> Section:
    """From the judgement at a glance down to single figures."""
    if not material.evidence:
        return Section("attacks", _TITLE, (Text(NO_EVIDENCE, "warning"),))
    after = [Text(_AFTER, "note")] if material.evidence.get("kind") == "audit" else []
    blocks = [
        *(Text(_HOW), *after, *_surfaces(material)),
        *_headed("Tests", comparison_blocks(material)),
        *_headed("ROC curves", roc_blocks(material)),
        *_headed("Members and non-members", distribution_blocks(material)),
        *_headed("Relearning", relearn_blocks(material)),
        *single_client_blocks(material),
        *distance_blocks(material),
        *backdoor_blocks(material),
        *measure_blocks(material),
    ]
    return Section("attacks", _TITLE, tuple(blocks))


_TITLE = "What attackers can still tell"


def _headed(title: str, blocks: list[Block]) -> list[Block]:
    return [Heading(title), *blocks] if blocks else []


def _surfaces(material: Material) -> list[Block]:
    surfaces = material.evidence.get("surfaces") or ()
    if not surfaces:
        return []
    rows = tuple(
        (
            surface["name"],
            surface.get("title") or MISSING,
            "tested" if surface["available"] else f"not tested: {surface.get('reason')}",
            surface.get("summary") or "",
        )
        for surface in surfaces
    )
    head = ("surface", "what it is", "state", "in words")
    return [Table("Where an attacker can look", head, rows, words=4)]


_WHY = (
    "An audit that calls everything forgotten is worth nothing. So each audit also judges cases "
    "whose answer is known: some must pass as forgotten, others must fail."
)
_HOLDS = {True: "✓ yes", False: "✗ no", None: "? cannot be told"}


def controls_section(material: Material) -> Section:
    """Each control with what it must do and whether it did."""
    controls = material.evidence.get("controls") or ()
    if not controls:
        silent = "No controls were run, so nothing speaks for the audit itself."
        return Section("controls", "Controls of the audit", (Text(silent, "warning"),))
    table = Table(
        "Controls",
        ("control", "must", "was judged", "holds?", "in words"),
        tuple(_row(control) for control in controls),
        words=5,
    )
    return Section("controls", "Controls of the audit", (Text(_WHY), *_broken(material), table))


def _row(control: Json) -> tuple[str, ...]:
    return (
        control["name"],
        control["must"],
        control.get("finding") or "not judged",
        _HOLDS[control.get("holds")],
        control.get("summary") or "",
    )


def _broken(material: Material) -> list[Block]:
    names = [
        control["name"] for control in material.evidence["controls"] if control["holds"] is False
    ]
    if not names:
        return []
    return [Text(f"These controls do not hold: {', '.join(names)}. Trust no verdict.", "warning")]
