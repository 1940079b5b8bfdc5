"""What was asked for and done, and whether the evidence is about its result."""

from __future__ import annotations

from typing import Any

from pfedul.base.text import human_bytes, joined, moment, sentence
from pfedul.report.blocks import Block, Facts, Heading, Items, Section, Table, Text
from pfedul.report.view import NO_EVIDENCE, NOT_FORGOTTEN_YET, NOTHING_AT_ALL, Json, View


def request_section(view: View) -> Section:
    """Who, when, how, the hashes, what was erased."""
    blocks = (
        *_asked(view),
        *_options(view.options),
        *_hashes(view),
        *_erased(view),
        *_notes(view),
    )
    return Section("request", "The request", blocks)


def _asked(view: View) -> list[Block]:
    if view.request is None:
        return [Text(NOT_FORGOTTEN_YET if view.evidence else NOTHING_AT_ALL, "warning")]
    asked, run = view.request, view.run
    facts = (
        ("forgotten", joined(view.targets)),
        ("request", f"number {asked['request']} of {run.get('run', 'the run')}"),
        ("asked for", moment(asked.get("asked_at"))),
        ("finished", moment(asked.get("finished_at"))),
        ("method", str(view.options.get("method", "not written down"))),
        ("correction", str((view.plan or {}).get("correction", "not written down"))),
    )
    return [Facts(facts)]


def _options(options: Json) -> list[Block]:
    if not options:
        return []
    rows = tuple((name.replace("_", " "), _plain(value)) for name, value in options.items())
    return [Table("Options of the removal", ("option", "value"), rows, words=2)]


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _hashes(view: View) -> list[Block]:
    """The tensors of the run beside those that were tested."""
    done, tested = view.request or {}, view.found.get("hashes") or {}
    rows = (
        ("shared, before", done.get("shared_sha256_before"), tested.get("shared_before")),
        ("shared, after", done.get("shared_sha256_after"), tested.get("shared_after")),
        ("whole state, after", None, tested.get("state_after")),
    )
    facts = [
        (f"{name} ({where})", value)
        for name, *values in rows
        for where, value in zip(("run", "tested"), values, strict=True)
        if value
    ]
    listed: list[Block] = [Facts(tuple(facts), mono=True)] if facts else []
    heading = Heading("Is the evidence about these tensors?")
    return [heading, *_application(view), *listed]


def _application(view: View) -> list[Block]:
    if view.evidence is None:
        return [Text(NO_EVIDENCE, "warning")]
    if view.request is None:
        return [Text("There are no tensors to compare with yet: nothing was forgotten.")]
    if view.applies is None:
        return [Text("It was not checked whether the evidence is about these tensors.", "warning")]
    if view.holds:
        return [Text("Yes. The hashes of what was tested and of what is in the run are equal.")]
    text = "No. The run differs from what was tested, so the evidence does not apply to it:"
    differences = [sentence(item) for item in view.applies.get("differences") or ()]
    return [Text(text, "warning"), Items(tuple(differences or ["It is not said where."]))]


def _erased(view: View) -> list[Block]:
    erased = view.outcome.get("erased")
    if not erased:
        return []
    done = "Erased" if view.request else "Erased in the rehearsal's copy, to be erased in the act"
    size = human_bytes(erased["bytes"])
    text = f"{done}: {erased['files']} files ({size}) and {erased['rows']} rows of the ledger."
    at_client = (view.request or {}).get("erased_at_client") or {}
    states = tuple(sentence(f"{client}: {state}") for client, state in at_client.items())
    return [Heading("What was erased"), Text(text), *([Items(states)] if states else [])]


def _notes(view: View) -> list[Block]:
    notes = [sentence(note) for note in view.outcome.get("notes") or ()]
    away = (view.request or {}).get("not_recalibrated")
    if away:
        notes.append(f"Not recalibrated yet: {joined(away)}; pfedul recalibrate lets them.")
    return [Heading("Notes"), Items(tuple(notes))] if notes else []
