"""Removals that were asked for: in what state each is, and whether it is overdue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from pfedul.base.text import counted, joined, moment, share_words
from pfedul.dashboard.verdicts import State, verdict_state
from pfedul.store.requests import DONE, PENDING

SOON = 7
"""Days before it is due in which an open request is marked."""


@dataclass(frozen=True)
class RequestRow:
    """One request as text."""

    number: int
    targets: str
    asked_at: str
    by: str
    ground: str
    due: str
    state: State
    outcome: str
    verdict: State | None
    open: bool
    done: bool


def request_row(request: Mapping[str, Any], today: date) -> RequestRow:
    """From a request of `read_status`."""
    asked = request["asked"] or {}
    return RequestRow(
        number=request["request"],
        targets=joined(request["targets"]),
        asked_at=moment(request["asked_at"]),
        by=asked.get("by") or "not known",
        ground=asked.get("ground") or "not known",
        due=asked.get("due") or "not known",
        state=state_of(request["status"], asked.get("due"), request["finished_at"], today),
        outcome=_outcome(request),
        verdict=_verdict(request["audit"]),
        open=request["status"] == PENDING,
        done=request["status"] == DONE,
    )


def state_of(status: str, due: str | None, finished_at: str | None, today: date) -> State:
    """How a request stands on that day.

    >>> day = date(2026, 3, 10)
    >>> state_of("pending", "2026-03-08", None, day)
    State(word='overdue by 2 days', tone='bad', sign='!')
    >>> state_of("pending", "2026-03-11", None, day).word
    'open, due in 1 day'
    >>> state_of("done", "2026-03-08", "2026-03-09T10:00:00+00:00", day)
    State(word='done, 1 day late', tone='mixed', sign='!')
    >>> state_of("failed", "2026-03-08", "2026-03-09T10:00:00+00:00", day)
    State(word='failed', tone='bad', sign='✗')
    """
    left = _days(today.isoformat(), due) if due else None
    if status == PENDING:
        return _open(left)
    if status != DONE:
        return State(status, "bad", "✗")
    late = _days(due, finished_at[:10]) if due and finished_at else 0
    return _marked(f"done, {counted(late, 'day')} late", "mixed") if late > 0 else State("done")


def _days(start: str, end: str) -> int:
    return (date.fromisoformat(end) - date.fromisoformat(start)).days


def _open(left: int | None) -> State:
    if left is None:
        return State("open")
    if left < 0:
        return _marked(f"overdue by {counted(-left, 'day')}", "bad")
    words = f"open, due in {counted(left, 'day')}" if left else "open, due today"
    return _marked(words, "mixed") if left <= SOON else State(words)


def _marked(word: str, tone: str) -> State:
    return State(word, tone, "!")


def _verdict(audit: Mapping[str, Any] | None) -> State | None:
    return None if audit is None else verdict_state(str(audit["verdict"]))


def _outcome(request: Mapping[str, Any]) -> str:
    """What came of it, in sentences."""
    words = [f"ended {moment(request['finished_at'])}"] if request["finished_at"] else []
    words += [str(request["ending"]["reason"])] if request["ending"] else []
    share = share_words((request["audit"] or {}).get("removed"))
    words += [f"{share} of what could be seen is gone"] if share else []
    if request["not_recalibrated"]:
        words.append(f"not recalibrated yet: {joined(request['not_recalibrated'])}")
    words += [f"{target}: {state}" for target, state in request["erased_at_client"].items()]
    return "; ".join(words) or OPEN


OPEN = "nothing is changed before all of it is done; 'pfedul forget' resumes it"
