"""Words with a colour and a sign: verdicts as the report shows them, and states of requests."""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.report.blocks import Page
from pfedul.report.looks import Look, look_of


@dataclass(frozen=True)
class State:
    """`tone` is a colour of the report, `sign` a letter that fonts have; both may be empty."""

    word: str
    tone: str = ""
    sign: str = ""


@dataclass(frozen=True)
class Finding:
    """The first screen of the report in short."""

    state: State
    sentences: tuple[str, ...]


def finding_of(page: Page) -> Finding:
    """Of a page that has a first screen, as that of `report_content` has."""
    banner = page.banner
    assert banner is not None
    sentences = (banner.meaning, banner.standing)
    return Finding(_state(banner.word, banner.look), tuple(filter(None, sentences)))


def verdict_state(word: str) -> State:
    """A verdict as the report shows it.

    >>> verdict_state("partly forgotten")
    State(word='partly forgotten', tone='mixed', sign='◐')
    """
    return _state(word, look_of(word))


def _state(word: str, look: Look) -> State:
    return State(word, look.tone, look.sign)
