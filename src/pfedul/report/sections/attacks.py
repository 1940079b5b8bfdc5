"""What attackers can still tell, compared with retraining, and the controls of the audit."""

from __future__ import annotations

from collections.abc import Sequence

from pfedul.base.text import MISSING, joined
from pfedul.report.blocks import Block, Heading, Section, Table, Text
from pfedul.report.material import NO_EVIDENCE, Json, Material
from pfedul.report.sections.comparison import comparison_blocks
from pfedul.report.sections.curves import distributions, relearn_blocks, roc_curves
from pfedul.report.sections.measures import (
    backdoor_blocks,
    distance_blocks,
    measures_table,
    single_clients,
)

_HOW = (
    "Each test lets an attacker guess which samples the target trained with, through one surface. "
    "The candidate is compared with oracles, which never saw the target: forgotten means that the "
    "attacker does no better than against them."
)
_AFTER = (
    "This evidence was made after the fact. The model before the removal is gone, so nothing "
    "can be said about how much was forgotten, only about what is left."
)


def attacks_section(material: Material) -> Section:
    """From the judgement at a glance down to single figures."""
    if not material.evidence:
        return Section("attacks", _TITLE, (Text(NO_EVIDENCE, "warning"),))
    after = [Text(_AFTER, "note")] if material.evidence.get("kind") == "audit" else []
    blocks: list[Block] = [
        Text(_HOW),
        *after,
        _surfaces(material),
        *(Heading("Tests"), *comparison_blocks(material)),
        *(Heading("ROC curves"), roc_curves(material)),
        *(Heading("Members and non-members"), distributions(material)),
        *(Heading("Relearning"), *relearn_blocks(material)),
        *(Heading("Client by client"), single_clients(material)),
        *(Heading("Distance to retraining"), *distance_blocks(material)),
        *(Heading("Backdoor"), *backdoor_blocks(material)),
        *(Heading("Further measures"), measures_table(material)),
    ]
    return Section.of("attacks", _TITLE, blocks)


_TITLE = "What attackers can still tell"


def _surfaces(material: Material) -> Table:
    rows = [
        {
            "surface": surface["name"],
            "what it is": surface.get("title") or MISSING,
            "state": "tested" if surface["available"] else f"not tested: {surface.get('reason')}",
            "in words": surface.get("summary") or "",
        }
        for surface in material.evidence.get("surfaces") or ()
    ]
    return Table.of("Where an attacker can look", rows, words=4)


_WHY = (
    "An audit that calls everything forgotten is worth nothing. So each audit also judges cases "
    "whose answer is known: some must pass as forgotten, others must fail."
)
_HOLDS = {True: "✓ yes", False: "✗ no", None: "? undecided"}


def controls_section(material: Material) -> Section:
    """Each control with what it must do and whether it did."""
    controls = material.evidence.get("controls") or ()
    if not controls:
        silent = "No controls were run, so the audit itself is unchecked."
        return Section("controls", "Controls of the audit", (Text(silent, "warning"),))
    rows = [
        {
            "control": control["name"],
            "must": control["must"],
            "was judged": control.get("finding") or "not judged",
            "holds?": _HOLDS[control.get("holds")],
            "in words": control.get("summary") or "",
        }
        for control in controls
    ]
    table = Table.of("Controls", rows, words=5)
    return Section("controls", "Controls of the audit", (Text(_WHY), *_broken(controls), table))


def _broken(controls: Sequence[Json]) -> list[Block]:
    names = joined((c["name"] for c in controls if c["holds"] is False), nothing="")
    warning = f"These controls do not hold: {names}. Trust no verdict."
    return [Text(warning, "warning")] if names else []
