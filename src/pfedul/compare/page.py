"""The page of a comparison: scatter, tables, each surface, what failed, how to repeat it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pfedul.audit.ask.surfaces import SURFACES
from pfedul.base.text import counted, readable, sentence
from pfedul.compare.folder import JSON_FILE, MARKDOWN_FILE, PAGE_FILE, SCATTER_FILE, write_json
from pfedul.compare.scatter import save_scatter, scatter_figure
from pfedul.compare.tables import (
    attack_tables,
    cost_table,
    forgetting_table,
    references_table,
    surfaces_in,
)
from pfedul.compare.tables import retraining_seconds as retraining_seconds
from pfedul.compare.words import OWN_BASE_NOTE, SPREAD_NOTE, has_spread, setting, who
from pfedul.compare.words import verdict_words as verdict_words
from pfedul.report.blocks import Block, Code, Facts, Gallery, Items, Page, Section, Text
from pfedul.report.html import as_html
from pfedul.report.markdown import as_markdown
from pfedul.store.folder import own_errors

Json = Mapping[str, Any]


def check_writable(folder: Path) -> None:
    """Refuse a folder for pages before there is anything to lose."""
    with own_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()


def write_pages(found: Json, folder: Path) -> dict[str, Path]:
    """The document and its pages in a folder; returns the files by kind."""
    files = {
        "page": folder / PAGE_FILE,
        "markdown": folder / MARKDOWN_FILE,
        "json": folder / JSON_FILE,
        "picture": folder / SCATTER_FILE,
    }
    page = comparison_page(found)
    with own_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        files["page"].write_text(as_html(page), encoding="utf-8", newline="\n")
        files["markdown"].write_text(as_markdown(page), encoding="utf-8", newline="\n")
    write_json(files["json"], found)
    save_scatter(found, files["picture"])
    return files


def comparison_page(found: Json) -> Page:
    """The page in plain parts; nothing here knows of a format."""
    sections = (
        Section("picture", "Forgetting against preservation", (_picture(found), Text(_READING))),
        Section("table", "All methods", _methods(found)),
        Section("surfaces", "What attacks reach, by surface", _surfaces(found)),
        Section("references", "What they are measured against", _references(found)),
        Section("notes", "What the methods said, and what failed", tuple(_notes(found))),
        Section("repeat", "How to repeat it", _repeat(found)),
    )
    return Page(_title(found), f"{setting(found)} · {who(found)}", None, sections)


def _title(found: Json) -> str:
    """Of several trainings each has a target of its own: nobody is named in the title."""
    ways = f"{counted(len(found['methods']), 'way')} compared"
    runs = found.get("runs")
    if runs:
        return f"How to forget a client: {ways} over {counted(len(runs), 'training')}"
    return f"How to forget {' and '.join(found['targets'])}: {ways}"


_READING = (
    "The best place is at the top, over 0 of the lower axis: attacks find as much as in a "
    "retrained model, and those who stay keep their accuracy. The untouched run is where nothing "
    "was forgotten. The oracles are retrained without the client, each judged beside the others; "
    "the shaded stretch from the first to the last of them shows how far apart retrained models "
    "are by chance alone (with two oracles it is as wide as their one difference). Left of it is "
    "no merit: a model that is attacked with less success than a retrained one stands out as well."
)


def _picture(found: Json) -> Gallery:
    bars = "; bars are the standard deviation over them" if has_spread(found["methods"]) else ""
    caption = (
        f"Every method at the mean over its seeds{bars}. Methods are numbered as in the legend; "
        "numbers in a row belong to marks that touch, from left to right. The same picture is in "
        "scatter.png."
    )
    return Gallery(caption, (scatter_figure(found),))


def _methods(found: Json) -> tuple[Block, ...]:
    notes = [SPREAD_NOTE] if has_spread(found["methods"]) else []
    if any(row.get("own_base") for row in found["methods"]):
        notes.append(OWN_BASE_NOTE)
    said = [Text(f"{note}.") for note in notes]
    return forgetting_table(found), *said, cost_table(found)


def _surfaces(found: Json) -> tuple[Block, ...]:
    """What the surfaces are, then what each attack reached through them."""
    known = {surface.name: surface for surface in SURFACES}
    facts = tuple(
        (name, f"{known[name].title}: {known[name].summary}")
        for name in surfaces_in(found)
        if name in known
    )
    return Text(_ABOUT_SURFACES), Facts(facts), *attack_tables(found)


_ABOUT_SURFACES = (
    "A surface is a place from which an attacker can look for the forgotten client. An AUC of 0.5 "
    "is a coin toss; what counts is the difference to the oracles, in brackets."
)


def _references(found: Json) -> tuple[Block, ...]:
    return references_table(found), Text(_ABOUT_ORACLES, "note")


_ABOUT_ORACLES = (
    "An oracle is judged beside the other oracles only, which are one fewer than all other models "
    'are judged beside: "not enough evidence" of an oracle says that so few cannot decide (of two '
    "oracles one is left, which never can), and nothing against it."
)


def _notes(found: Json) -> list[Block]:
    """Each sentence once, with the seeds that it is from where there are several."""
    said = _with_seeds(found, [(c, note) for c in found["cells"] for note in c["notes"]])
    failed = _with_seeds(found, [(c, c["failure"]) for c in found["cells"] if c["failure"]])
    blocks: list[Block] = [Items(said)] if said else []
    if failed:
        count = counted(sum(bool(cell["failure"]) for cell in found["cells"]), "cell")
        blocks += [Text(f"{count} came to no result.", "warning"), Items(failed)]
    return blocks or [Text("Nothing was noted and nothing failed.")]


def _with_seeds(found: Json, notes: list[tuple[Json, str]]) -> tuple[str, ...]:
    several = len({cell["seed"] for cell in found["cells"]}) > 1
    kind = "training seed" if found.get("runs") else "seed"
    seeds: dict[tuple[str, str], list[str]] = {}
    for cell, note in notes:
        seed = found["seed"] if cell["seed"] is None else cell["seed"]
        seeds.setdefault((readable(cell["label"]), note), []).append(str(seed))
    return tuple(
        f"{name}{_of_seeds(kind, own) if several else ''}: {sentence(note)}"
        for (name, note), own in seeds.items()
    )


def _of_seeds(kind: str, seeds: list[str]) -> str:
    """
    >>> _of_seeds("seed", ["0"]), _of_seeds("seed", ["0", "1"])
    (' (seed 0)', ' (seeds 0, 1)')
    """
    return f" ({kind}{'s' if len(seeds) > 1 else ''} {', '.join(seeds)})"


def _repeat(found: Json) -> tuple[Block, ...]:
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    facts = (("made at", found["made_at"]), ("versions", versions), ("machine", found["machine"]))
    runs = len(found.get("runs", ())) or 1
    return (
        Facts(facts),
        Code("The command" if runs == 1 else "The commands", found["command"]),
        Code(
            "The configuration of the run" if runs == 1 else "The configurations of the runs",
            found["configuration"],
        ),
    )
