"""Whether the audit itself can be trusted: cases whose answer is known beforehand."""

from __future__ import annotations

from pfedul.report.blocks import Block, Section, Table, Text
from pfedul.report.view import Json, View

_WHY = (
    "An audit that calls everything forgotten is worth nothing. So each audit also judges cases "
    "whose answer is known: some must pass as forgotten, others must fail."
)
_HOLDS = {True: "✓ yes", False: "✗ no", None: "? cannot be told"}


def controls_section(view: View) -> Section:
    """Each control with what it must do and whether it did."""
    controls = view.found.get("controls") or ()
    if not controls:
        silent = "No controls were run, so nothing speaks for the audit itself."
        return Section("controls", "Controls of the audit", (Text(silent, "warning"),))
    table = Table(
        "Controls",
        ("control", "must", "was judged", "holds?", "in words"),
        tuple(_row(control) for control in controls),
        words=5,
    )
    return Section("controls", "Controls of the audit", (Text(_WHY), *_broken(view), table))


def _row(control: Json) -> tuple[str, ...]:
    return (
        control["name"],
        control["must"],
        control.get("finding") or "not judged",
        _HOLDS[control.get("holds")],
        control.get("summary") or "",
    )


def _broken(view: View) -> list[Block]:
    names = [control["name"] for control in view.found["controls"] if control["holds"] is False]
    if not names:
        return []
    return [Text(f"These controls do not hold: {', '.join(names)}. Trust no verdict.", "warning")]
