"""How verdicts and findings look: each has a colour and a sign of its own, never a colour alone."""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.audit.judge.rules import (
    FORGOTTEN,
    NOT_ENOUGH,
    NOT_FORGOTTEN,
    NOTHING_TO_FORGET,
    OVER_FORGOTTEN,
    PARTLY,
)


@dataclass(frozen=True)
class Look:
    """`tone` is a colour of the page, `sign` a letter that fonts have."""

    tone: str
    sign: str


UNKNOWN = Look("unknown", "?")
DISTRUST = Look("bad", "!")

LOOKS = {
    FORGOTTEN: Look("good", "✓"),
    PARTLY: Look("mixed", "◐"),
    NOT_FORGOTTEN: Look("bad", "✗"),
    OVER_FORGOTTEN: Look("over", "▼"),
    NOTHING_TO_FORGET: Look("nothing", "○"),
    NOT_ENOUGH: UNKNOWN,
}

_FINDINGS = {
    "leak": (LOOKS[NOT_FORGOTTEN], "leak"),
    "reduced leak": (LOOKS[PARTLY], "reduced leak"),
    "within": (LOOKS[FORGOTTEN], "within the spread"),
    "below": (LOOKS[OVER_FORGOTTEN], "below: over-forgotten"),
    "unclear": (UNKNOWN, "unclear"),
    "nothing to see": (LOOKS[NOTHING_TO_FORGET], "nothing to see"),
}


def look_of(verdict: str) -> Look:
    """An unknown verdict is not good news.

    >>> look_of("forgotten").sign, look_of("splendid").sign
    ('✓', '?')
    """
    return LOOKS.get(verdict, UNKNOWN)


def with_sign(verdict: str) -> str:
    """A verdict with its sign; other words, such as that there is none, as they are.

    >>> with_sign("partly forgotten"), with_sign("no result")
    ('◐ partly forgotten', 'no result')
    """
    return f"{LOOKS[verdict].sign} {verdict}" if verdict in LOOKS else verdict


@dataclass(frozen=True)
class Cell:
    """A cell of a table with a colour; its text says the same without it."""

    text: str
    tone: str

    def __str__(self) -> str:
        return self.text


def verdict_cell(verdict: str) -> Cell:
    return Cell(with_sign(verdict), look_of(verdict).tone)


def finding_cell(finding: str) -> Cell:
    """What one test found.

    >>> str(finding_cell("within")), finding_cell("other").tone
    ('✓ within the spread', 'unknown')
    """
    look, words = _FINDINGS.get(finding, (UNKNOWN, finding))
    return Cell(f"{look.sign} {words}", look.tone)
