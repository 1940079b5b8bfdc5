"""What was asked for and done, whether the evidence applies to it, and how to repeat it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pfedul.base.text import human_bytes, joined, moment, number, sentence
from pfedul.report.blocks import Block, Code, Facts, Heading, Items, Section, Table, Text
from pfedul.report.material import NO_EVIDENCE, NOT_FORGOTTEN_YET, NOTHING_AT_ALL, Json, View


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


def repeat_section(view: View) -> Section:
    """Command, versions, seeds, configuration."""
    blocks = (*_evidence(view), *_configuration(view))
    return Section("repeat", "To repeat it", blocks)


def _evidence(view: View) -> list[Block]:
    found = view.evidence
    if found is None:
        return [Text(NO_EVIDENCE, "warning")]
    facts = (
        ("kind", f"{found.get('kind', 'unknown')}, level {found.get('level', 'unknown')}"),
        ("made", moment(found.get("made_at"))),
        ("machine", str(found.get("machine", "not written down"))),
        ("seed, rounds", f"{found.get('seed')}, {found.get('rounds')}"),
        *((name, str(version)) for name, version in (found.get("versions") or {}).items()),
        *((f"samples: {name}", f"{n:,}") for name, n in (found.get("samples") or {}).items()),
    )
    return [
        Code("The command", str(found.get("command", ""))),
        Facts(facts),
        *_models("Oracles: retrained without the target", found.get("oracles") or ()),
        *_models("Twins: trained with the target, then unlearned", found.get("twins") or ()),
    ]


def _models(caption: str, models: Sequence[Json]) -> list[Block]:
    if not models:
        return []
    rows = tuple(
        (
            model["name"],
            str(model["shared_sha256"])[:16],
            "yes" if model.get("cached") else "no",
            str(model["seed"]),
            str(model["rounds"]),
            number(model.get("cpu_seconds"), 1),
        )
        for model in models
    )
    head = ("model", "shared tensors (SHA-256)", "from the cache", "seed", "rounds", "CPU seconds")
    return [Table(caption, head, rows, words=3)]


def _configuration(view: View) -> list[Block]:
    tested = view.found.get("configuration")
    blocks: list[Block] = []
    if tested:
        blocks.append(Code("federation.toml, as it was tested", tested))
    if view.settings and view.settings != tested:
        changed = "The configuration has changed since the evidence was made."
        blocks += [Text(changed, "note")] if tested else []
        blocks.append(Code("federation.toml, as it is in the run", view.settings))
    return blocks or [Text("The configuration is not known.", "warning")]
