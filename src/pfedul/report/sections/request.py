"""What was asked for and done, whether the evidence applies to it, and how to repeat it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pfedul.base.text import human_bytes, joined, moment, number, sentence
from pfedul.report.blocks import (
    Block,
    Code,
    FactList,
    Fold,
    Heading,
    Items,
    Link,
    Section,
    Table,
    Text,
)
from pfedul.report.material import NO_EVIDENCE, NOT_FORGOTTEN_YET, NOTHING_AT_ALL, Json, Material
from pfedul.status import privacy_words


def request_section(material: Material) -> Section:
    """Who, when, how, the hashes, what was erased."""
    blocks = [
        _asked(material),
        *(Heading("Is the evidence about these tensors?"), *_application(material)),
        _hashes(material),
        *(*_erased(material), *_signed(material), *_privacy(material)),
        *(Heading("Notes"), _notes(material)),
        Fold.of("All options of the removal", _options(material.options)),
    ]
    return Section.of("request", "The request", blocks)


def _asked(material: Material) -> Block:
    if not material.request:
        return Text(NOT_FORGOTTEN_YET if material.evidence else NOTHING_AT_ALL, "warning")
    asked, run = material.request, material.run
    facts = (
        ("forgotten", joined(material.targets)),
        ("request", f"number {asked['request']} of {run.get('run', 'the run')}"),
        ("asked for", moment(asked.get("asked_at"))),
        *((name, str(value)) for name, value in (asked.get("asked") or {}).items()),
        ("finished", moment(asked.get("finished_at"))),
        ("method", str(material.options.get("method", "not written down"))),
        ("correction", str((material.plan or {}).get("correction", "not written down"))),
    )
    return FactList(facts)


def _options(options: Json) -> Table:
    rows = [
        {"option": name.replace("_", " "), "value": _plain(value)}
        for name, value in options.items()
    ]
    return Table.of("Options of the removal", rows, words=2)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _privacy(material: Material) -> list[Block]:
    """Differential privacy of the run's rounds, if it has any."""
    privacy = material.run.get("privacy")
    return [Heading("Differential privacy"), Text(privacy_words(privacy))] if privacy else []


def _hashes(material: Material) -> FactList:
    """Hashes of the run's tensors next to those that were tested."""
    done, tested = material.request, material.evidence.get("hashes") or {}
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
    return FactList(tuple(facts), mono=True)


def _signed(material: Material) -> list[Block]:
    """Who signed what the ledger says of this, and whether it still says so."""
    chain = material.run.get("chain")
    if not chain:
        return []
    facts = (
        ("entries", str(chain["entries"])),
        ("signer's key (SHA-256)", chain["signer"]),
        ("head", chain["head"]),
        ("certificate", material.request.get("certificate") or "none; pfedul certificate RUN"),
    )
    wrong = [f"Not as it was signed: {sentence}" for sentence in chain["wrong"]]
    foreign = [] if chain["own"] else ["The signer's key is not that of who made this page."]
    warnings = [Text(sentence, "warning") for sentence in (*wrong, *foreign)]
    way = material.request.get("certificate_link")
    link = [Link("The certificate of this removal", str(way))] if way else []
    return [Heading("The chain of evidence"), *warnings, FactList(facts, mono=True), *link]


def _application(material: Material) -> list[Block]:
    if not material.evidence:
        return [Text(NO_EVIDENCE, "warning")]
    if not material.request:
        return [Text("There are no tensors to compare with yet: nothing was forgotten.")]
    if material.applies is None:
        return [Text("It was not checked whether the evidence is about these tensors.", "warning")]
    if material.holds:
        return [Text("Yes. The hashes of what was tested and of what is in the run are equal.")]
    text = "No. The run differs from what was tested, so the evidence does not apply to it:"
    differences = [sentence(item) for item in material.applies.get("differences") or ()]
    return [Text(text, "warning"), Items(tuple(differences or ["It is not said where."]))]


def _erased(material: Material) -> list[Block]:
    erased = material.outcome.get("erased")
    if not erased:
        return []
    done = (
        "Erased" if material.request else "Erased in the rehearsal's copy, to be erased in the act"
    )
    size = human_bytes(erased["bytes"])
    text = f"{done}: {erased['files']} files ({size}) and {erased['rows']} rows of the ledger."
    at_client = material.request.get("erased_at_client") or {}
    states = tuple(sentence(f"{client}: {state}") for client, state in at_client.items())
    return [Heading("What was erased"), Text(text), Items(states)]


def _notes(material: Material) -> Items:
    notes = [sentence(note) for note in material.outcome.get("notes") or ()]
    away = material.request.get("not_recalibrated")
    if away:
        notes.append(f"Not recalibrated yet: {joined(away)}; pfedul recalibrate lets them.")
    return Items(tuple(notes))


def repeat_section(material: Material) -> Section:
    """Command, versions, seeds, configuration."""
    return Section.of("repeat", "To repeat it", [*_evidence(material), *_configuration(material)])


def _evidence(material: Material) -> list[Block]:
    evidence = material.evidence
    if not evidence:
        return [Text(NO_EVIDENCE, "warning")]
    facts = (
        ("kind", f"{evidence.get('kind', 'unknown')}, level {evidence.get('level', 'unknown')}"),
        ("made", moment(evidence.get("made_at"))),
        *((key, str(evidence[key])) for key in ("machine", "seed", "rounds") if key in evidence),
        *((name, str(version)) for name, version in (evidence.get("versions") or {}).items()),
        *((f"samples: {name}", f"{n:,}") for name, n in (evidence.get("samples") or {}).items()),
    )
    return [
        Code("The command", str(evidence.get("command", ""))),
        Fold.of(
            "Versions, seeds and the models that were trained for it",
            FactList(facts),
            _models("Oracles: retrained without the target", evidence.get("oracles") or ()),
            _models("Twins: trained with the target, then unlearned", evidence.get("twins") or ()),
        ),
    ]


def _models(caption: str, models: Sequence[Json]) -> Table:
    rows = [
        {
            "model": model["name"],
            "shared tensors (SHA-256)": str(model["shared_sha256"])[:16],
            "from the cache": "yes" if model.get("cached") else "no",
            "seed": str(model["seed"]),
            "rounds": str(model["rounds"]),
            "CPU seconds": number(model.get("cpu_seconds"), 1),
        }
        for model in models
    ]
    return Table.of(caption, rows, words=3)


def _configuration(material: Material) -> list[Block]:
    tested = material.evidence.get("configuration")
    blocks: list[Block] = []
    if tested:
        blocks.append(Code("federation.toml, as it was tested", tested))
    if material.settings and material.settings != tested:
        changed = "The configuration has changed since the evidence was made."
        blocks += [Text(changed, "note")] if tested else []
        blocks.append(Code("federation.toml, as it is in the run", material.settings))
    fold = Fold.of("The configuration of the run", *blocks)
    return [fold] if blocks else [Text("The configuration is not known.", "warning")]
