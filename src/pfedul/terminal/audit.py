"""Audits in the terminal."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from pfedul.base.text import share_words
from pfedul.report.material import Json
from pfedul.terminal.console import error_console, line, table

if TYPE_CHECKING:
    from pfedul.audit.rehearsal import Price


def print_price(price: Price) -> None:
    """What will be trained and about how long it takes, before it starts."""
    if not price.oracles + price.twins:
        known = f"All {price.cached} oracles are there already."
        error_console.print(known if price.cached else _NO_ORACLES, highlight=False)
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


_NO_ORACLES = "Nothing is trained for this audit: it compares before with after, without oracles."


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
    print_tests(evidence)
    if evidence["controls"]:
        table("controls", [_control(row) for row in evidence["controls"]])
    for need in verdict["needed"]:
        line(f"Needed: {need}")
    for limit in verdict["limits"]:
        line(f"Limit: {limit}")
    line(f"Next: {next_command}")


def print_own_evidence(evidence: Json) -> None:
    """The tests behind a removal's own verdict, and what a better one needs."""
    if evidence["tests"]:
        print_tests(evidence)
    for need in evidence["verdict"]["needed"]:
        line(f"Needed: {need}")


def print_tests(evidence: Json) -> None:
    """Before and after, test by test; against oracles, or as the share of the leak that is gone."""
    rows = [
        {
            "surface": row["surface"],
            "attack": row["attack"],
            "before": _figure(row["figures"]["untouched"]),
            "after": _figure(row["figures"]["candidate"]),
            **_compared(row),
            "finding": row["finding"],
        }
        for row in evidence["tests"]
    ]
    table("AUC of each attack (0.5: the attacker can only guess)", rows)


def _compared(row: Json) -> dict[str, str]:
    gone = {"gone": share_words(row.get("removed")) or "unknown"}
    if len(row["figures"]) > 2:  # besides before and after: oracles
        return {"retrained": f"{_retrained(row):.3f}", **gone}
    return {**gone, "smallest visible": f"{row['smallest_visible']:.3f}"}


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
