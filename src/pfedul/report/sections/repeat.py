"""Everything that is needed to repeat the evidence."""

from __future__ import annotations

from collections.abc import Sequence

from pfedul.base.text import moment, number
from pfedul.report.blocks import Block, Code, Facts, Section, Table, Text
from pfedul.report.view import NO_EVIDENCE, Json, View


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
