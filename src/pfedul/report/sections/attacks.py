"""What attackers can still tell, compared with retraining."""

from __future__ import annotations

from pfedul.base.text import MISSING
from pfedul.report.blocks import Block, Heading, Section, Table, Text
from pfedul.report.sections.comparison import comparison_blocks
from pfedul.report.sections.curves import distribution_blocks, relearn_blocks, roc_blocks
from pfedul.report.sections.measures import (
    backdoor_blocks,
    distance_blocks,
    measure_blocks,
    single_client_blocks,
)
from pfedul.report.view import NO_EVIDENCE, View

_HOW = (
    "Each test lets an attacker guess which samples the target trained with, through one surface. "
    "The candidate is compared with oracles, which never saw the target: forgotten means that the "
    "attacker does no better than against them."
)
_AFTER = (
    "This evidence was made after the fact. The model before the removal is gone, so nothing "
    "can be said of how much was forgotten, only of what is left."
)


def attacks_section(view: View) -> Section:
    """From the judgement at a glance down to single figures."""
    if view.evidence is None:
        return Section("attacks", _TITLE, (Text(NO_EVIDENCE, "warning"),))
    after = [Text(_AFTER, "note")] if view.found.get("kind") == "audit" else []
    blocks = [
        *(Text(_HOW), *after, *_surfaces(view)),
        *_headed("Tests", comparison_blocks(view)),
        *_headed("ROC curves", roc_blocks(view)),
        *_headed("Members and non-members", distribution_blocks(view)),
        *_headed("Relearning", relearn_blocks(view)),
        *single_client_blocks(view),
        *distance_blocks(view),
        *backdoor_blocks(view),
        *measure_blocks(view),
    ]
    return Section("attacks", _TITLE, tuple(blocks))


_TITLE = "What attackers can still tell"


def _headed(title: str, blocks: list[Block]) -> list[Block]:
    return [Heading(title), *blocks] if blocks else []


def _surfaces(view: View) -> list[Block]:
    surfaces = view.found.get("surfaces") or ()
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
