"""What happened to a run, from its chain of evidence: the newest first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from pfedul.base.text import moment
from pfedul.store.chain import COMMIT, STATE, Entry

MOST = 60


@dataclass(frozen=True)
class Event:
    """One entry of the chain, or commits in a row."""

    at: str
    what: str
    entries: str


def events_of(chain: Sequence[Entry]) -> list[Event]:
    """At most the newest `MOST`; entries about the state as a whole go with another one."""
    told = (entry for entry in chain if entry.kind != STATE)
    groups = groupby(told, key=lambda entry: 0 if entry.kind == COMMIT else entry.entry)
    return [_event(list(entries)) for _, entries in groups][::-1][:MOST]


def _event(entries: Sequence[Entry]) -> Event:
    first, last = entries[0], entries[-1]
    numbers = str(last.entry) if first is last else f"{first.entry} to {last.entry}"
    what = _commits(entries) if first.kind == COMMIT else _words(last)
    return Event(moment(last.at), what, numbers)


def _commits(entries: Sequence[Entry]) -> str:
    first, last = (entry.facts["commit"] for entry in (entries[0], entries[-1]))
    return f"commit {last}" if first == last else f"commits {first} to {last}"


def _words(entry: Entry) -> str:
    """Its kind, the row that it is about if that has a number, and the row's new status."""
    key = json.loads(entry.about)[1:] if entry.about else []
    numbers = [str(part) for part in key if isinstance(part, int)]
    status = [str(entry.facts[name]) for name in ("status", "kind") if name in entry.facts]
    return ": ".join([" ".join([entry.kind, *numbers]), *status])
