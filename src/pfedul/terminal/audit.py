"""How audits look in a terminal."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from pfedul.terminal.console import error_console, line, table

if TYPE_CHECKING:
    from pfedul.audit.rehearsal import Price

Row = dict[str, Any]


def price(found: Price) -> None:
    """What will be trained, said before it is."""
    if not found.oracles + found.twins:
        error_console.print(f"All {found.cached} oracles are there already.", highlight=False)
        return
    parts = [f"{found.oracles} oracles"] if found.oracles else []
    parts += [f"{found.twins} twins of the run"] if found.twins else []
    known = f" ({found.cached} are there already)" if found.cached else ""
    error_console.print(
        f"To be trained: {' and '.join(parts)}{known}, about {_duration(found.cpu_seconds)} of "
        "CPU time by what the run itself took.",
        highlight=False,
        soft_wrap=True,
    )


def carried_over(evidence: Row, differences: list[str]) -> None:
    """After a removal: whether what was rehearsed holds for it."""
    if differences:
        line(f"The rehearsal of {evidence['made_at'][:10]} does not apply: {differences[0]}.")
        return
    line(
        f"Evidence: these are the very tensors that were rehearsed (equal hashes); the verdict was "
        f"'{evidence['verdict']['verdict']}'."
    )


def _duration(seconds: float) -> str:
    """A time that people can read.

    >>> _duration(40), _duration(400), _duration(40000)
    ('40 s', '7 min', '11.1 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def audit(found: Row, then: str) -> None:
    """The verdict, what it rests on, the controls and the limits."""
    verdict = found["verdict"]
    line(f"Verdict: {verdict['verdict']}")
    line(verdict["sentence"])
    table("AUC of each attack (0.5: members cannot be told from others)", _tests(found))
    table("controls", [_control(row) for row in found["controls"]])
    for need in verdict["needed"]:
        line(f"Needed: {need}")
    for limit in verdict["limits"]:
        line(f"Limit: {limit}")
    line(f"Next: {then}")


def _tests(found: Row) -> list[Row]:
    return [
        {
            "surface": row["surface"],
            "attack": row["attack"],
            "before": _figure(row["figures"]["untouched"]),
            "after": _figure(row["figures"]["candidate"]),
            "retrained": f"{_retrained(row):.3f}",
            "finding": row["finding"],
        }
        for row in found["tests"]
    ]


def _figure(figure: Row | None) -> str:
    if figure is None:
        return "gone"
    return f"{figure['value']:.3f} ({figure['interval'][0]:.2f} to {figure['interval'][1]:.2f})"


def _retrained(row: Row) -> float:
    return fmean(f["value"] for name, f in row["figures"].items() if name.startswith("oracle "))


def _control(row: Row) -> Row:
    holds = {True: "yes", False: "NO", None: "cannot be told"}
    return {
        "control": row["name"],
        "must": row["must"],
        "found": row["finding"],
        "holds": holds[row["holds"]],
    }
