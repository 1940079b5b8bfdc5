"""The page of a comparison: scatter, tables, each surface, what failed, how to repeat it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pfedul.base.text import counted, readable, sentence
from pfedul.compare import tables
from pfedul.compare.folder import JSON_FILE, MARKDOWN_FILE, PAGE_FILE, SCATTER_FILE, write_json
from pfedul.compare.scatter import TITLE, save_scatter, scatter_figure
from pfedul.compare.tables import setting, who
from pfedul.report.blocks import Block, Code, FactList, Fold, Gallery, Items, Page, Section, Text
from pfedul.report.formats import as_html
from pfedul.report.markdown import as_markdown
from pfedul.report.material import Json
from pfedul.report.sections.explained import explained
from pfedul.store.folder import own_errors


def check_writable(folder: Path) -> None:
    """Refuse a folder that cannot be written to before the work begins."""
    with own_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()


def write_pages(document: Json, folder: Path) -> dict[str, Path]:
    """The document and its pages in a folder; returns the files by kind."""
    files = {
        "page": folder / PAGE_FILE,
        "markdown": folder / MARKDOWN_FILE,
        "json": folder / JSON_FILE,
        "picture": folder / SCATTER_FILE,
    }
    page = comparison_page(document)
    with own_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        files["page"].write_text(as_html(page), encoding="utf-8", newline="\n")
        files["markdown"].write_text(as_markdown(page), encoding="utf-8", newline="\n")
    write_json(files["json"], document)
    save_scatter(document, files["picture"])
    return files


def comparison_page(document: Json) -> Page:
    """The page in parts that do not depend on a format."""
    references, about = tables.references_table(document), Text(_ABOUT_ORACLES, "note")
    sections = (
        Section("picture", TITLE, (_picture(document), Text(_READING))),
        Section("table", "All methods", _methods(document)),
        Section("surfaces", "What attacks reach, by surface", _surfaces(document)),
        Section("references", "What they are measured against", (references, about)),
        Section("notes", "What the methods said, and what failed", tuple(_notes(document))),
        Section("repeat", "How to repeat it", _repeat(document)),
    )
    return Page(_title(document), f"{setting(document)} · {who(document)}", None, sections)


def _title(document: Json) -> str:
    """With several trainings the title names nobody: each has its own target."""
    ways = f"{counted(len(document['methods']), 'way')} compared"
    runs = document.get("runs")
    if runs:
        return f"How to forget a client: {ways} over {counted(len(runs), 'training')}"
    return f"How to forget {' and '.join(document['targets'])}: {ways}"


_READING = (
    "The best place is where the dotted lines cross: attacks find as much as in a retrained model, "
    "and the remaining clients keep their accuracy. The untouched run is where "
    "nothing was forgotten. The oracles are retrained without the client, each judged against the "
    "others; the shaded range from the first to the last of them shows how far apart retrained "
    "models are by chance alone (with two oracles it is as wide as their one difference). Left of "
    "it is not better: a model on which attacks do worse than on a retrained one stands out, too."
)


def _picture(document: Json) -> Gallery:
    bars = (
        "; bars are the standard deviation over them"
        if tables.has_spread(document["methods"])
        else ""
    )
    caption = (
        f"Every method at the mean over its seeds{bars}. Methods are numbered as in the legend; "
        "numbers in a row belong to marks that touch, from left to right. The same picture is in "
        "scatter.png."
    )
    return Gallery(caption, (scatter_figure(document),))


def _methods(document: Json) -> tuple[Block, ...]:
    notes = [Text(sentence(note)) for note in tables.notes_on(document["methods"])]
    return tables.forgetting_table(document), *notes, tables.cost_table(document)


def _surfaces(document: Json) -> tuple[Block, ...]:
    """What the surfaces and attacks are, then the AUC of each attack through them."""
    surfaces = [{"name": name} for name in tables.surfaces_in(document)]
    words = explained(surfaces, tables.attacks_in(document))
    return *words, Text(_DIFFERENCE), *tables.attack_tables(document)


_DIFFERENCE = "What counts is the difference to the oracles, in brackets."


_ABOUT_ORACLES = (
    "An oracle is judged against the other oracles only, one fewer than for all other models. "
    '"Not enough evidence" for an oracle means that so few cannot decide (with two oracles, the '
    "one that is left never can); it does not speak against it."
)


def _notes(document: Json) -> list[Block]:
    """Each sentence once, with its seeds where there are several."""
    cells = document["cells"]
    failed = [(cell, cell["failure"]) for cell in cells if cell["failure"]]
    notes = _with_seeds(document, [(cell, note) for cell in cells for note in cell["notes"]])
    blocks: list[Block] = [Items(notes)] if notes else []
    if failed:
        count = f"{counted(len(failed), 'cell')} came to no result."
        blocks += [Text(count, "warning"), Items(_with_seeds(document, failed))]
    return blocks or [Text("Nothing was noted and nothing failed.")]


def _with_seeds(document: Json, notes: list[tuple[Json, str]]) -> tuple[str, ...]:
    several = len({cell["seed"] for cell in document["cells"]}) > 1
    kind = "training seed" if document.get("runs") else "seed"
    seeds: dict[tuple[str, str], list[str]] = {}
    for cell, note in notes:
        seed = document["seed"] if cell["seed"] is None else cell["seed"]
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


def _repeat(document: Json) -> tuple[Block, ...]:
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    facts = {"made at": document["made_at"], "versions": versions, "machine": document["machine"]}
    s = "s" if len(document.get("runs", ())) > 1 else ""
    command = Code(f"The command{s}", document["command"])
    title = f"The configuration{s} of the run{s}"
    configuration = Fold.of(title, Code(title, document["configuration"]))
    return FactList(tuple(facts.items())), command, configuration
