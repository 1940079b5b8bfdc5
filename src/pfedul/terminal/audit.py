"""Audits in the terminal."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from pfedul.report.material import Json
from pfedul.terminal.console import error_console, line, table

if TYPE_CHECKING:
    from pfedul.audit.rehearsal import Price


def print_price(price: Price) -> None:
    """What will be trained and about how long it takes, before it starts."""
    if not price.oracles + price.twins:
        error_console.print(f"All {price.cached} oracles are there already.", highlight=False)
        return
    parts = [f"{price.oracles} oracles"] if price.oracles else []
    parts += [f"{price.twins} twins of the run"] if price.twins else []
    already = f" ({price.cached} are there already)" if price.cached else ""
    error_console.print(
        f"To be trained: {' and '.join(parts)}{already}, about {_duration(price.cpu_seconds)} of "
        "CPU time by what the run itself took.",
        highlight=False,
        soft_wrap=True,
    )


def print_carried_over(evidence: Json, differences: list[str]) -> None:
    """After a removal: whether the evidence of the rehearsal applies to it."""
    if differences:
        line(f"The rehearsal of {evidence['made_at'][:10]} does not apply: {differences[0]}.")
        return
    line(
        f"Evidence: these are the tensors that were rehearsed (equal hashes); the verdict was "
        f"'{evidence['verdict']['verdict']}'."
    )


def _duration(seconds: float) -> str:
    """A duration in words.

    >>> _duration(40), _duration(400), _duration(40000)
    ('40 s', '7 min', '11.1 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def print_audit(evidence: Json, next_command: str) -> None:
    """The verdict, what it rests on, the controls and the limits."""
    verdict = evidence["verdict"]
    line(f"Verdict: {verdict['verdict']}")
    line(verdict["sentence"])
    table("AUC of each attack (0.5: the attacker can only guess)", _tests(evidence))
    table("controls", [_control(row) for row in evidence["controls"]])
    for need in verdict["needed"]:
        line(f"Needed: {need}")
    for limit in verdict["limits"]:
        line(f"Limit: {limit}")
    line(f"Next: {next_command}")


def _tests(evidence: Json) -> list[dict[str, str]]:
    return [
        {
            "surface": row["surface"],
            "attack": row["attack"],
            "before": _figure(row["figures"]["untouched"]),
            "after": _figure(row["figures"]["candidate"]),
            "retrained": f"{_retrained(row):.3f}",
            "finding": row["finding"],
        }
        for row in evidence["tests"]
    ]


def _figure(figure: Json | None) -> str:
    if figure is None:
        return "gone"
    return f"{figure['value']:.3f} ({figure['interval'][0]:.2f} to {figure['interval'][1]:.2f})"


def _retrained(row: Json) -> float:
    return fmean(f["value"] for name, f in row["figures"].items() if name.startswith("oracle "))


def _control(row: Json) -> dict[str, str]:
    holds = {True: "yes", False: "NO", None: "undecided"}
    return {
        "control": row["name"],
        "must": row["must"],
        "found": row["finding"],
        "holds": holds[row["holds"]],
    }
