"""The files of an experiment: JSON, Markdown and, where the paper has one, a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pfedul.compare.folder import write_json
from pfedul.experiments.document import Document
from pfedul.experiments.picture import save_picture
from pfedul.experiments.resolution import resolution
from pfedul.store.folder import own_errors

Grid = list[list[str]]


def write_files(document: Document, folder: Path) -> dict[str, Path]:
    """Write them into the folder; returns them by kind."""
    stem = folder / document["experiment"]
    files = {kind: stem.with_suffix(ending) for kind, ending in _ENDINGS.items()}
    if not document["picture"]:
        del files["picture"]
    with own_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_json(files["json"], document)
        files["markdown"].write_text(markdown(document), encoding="utf-8")
        if document["picture"]:
            save_picture(document, files["picture"])
    return files


_ENDINGS = {"json": ".json", "markdown": ".md", "picture": ".png"}


def markdown(document: Document) -> str:
    """The tables with a heading, and what a reader must know."""
    heading = f"# {title(document)}\n\n{remark(document)}\n"
    remarks = [f"- {note}" for note in notes(document)]
    return "\n".join([heading, tables(document), *claims(document), *remarks, ""])


def claims(document: Document) -> list[str]:
    """A table of what the paper says, beside what was measured."""
    if not document["claims"]:
        return []
    lines = [CLAIM_HEAD, ["---"] * 4, *map(claim_texts, document["claims"])]
    return ["**What the paper says**\n", *(f"| {' | '.join(line)} |" for line in lines), ""]


CLAIM_HEAD = ("the paper", "says", "its own figures", "measured here")


def claim_texts(claim: Mapping[str, Any]) -> list[str]:
    """One claim as text."""
    return [claim["source"], claim["says"], _found(claim["printed"], ""), _found(claim["measured"])]


def _found(finding: Mapping[str, Any] | None, missing: str = "not measured") -> str:
    if finding is None:
        return missing
    return f"{'yes' if finding['agrees'] else '**no**'}: {finding['figures']}"


def title(document: Document) -> str:
    source = f" ({document['source']})" if document["source"] else ""
    return f"{document['experiment']}: {document['summary']}{source}"


def remark(document: Document) -> str:
    """How to read a cell, and how complete the table is."""
    words = (
        f"Scale `{document['scale']}`: {document['scale_summary']}. Mean ± standard deviation "
        "over trainings with different seeds; [in brackets] what the paper prints."
    )
    if _has_intervals(document):
        words += (
            " (In parentheses) the 95 % interval of one training, which counts its clients and "
            "their test samples: its mean over trainings."
        )
    if document["missing"]:
        words += f" **Not complete: {document['missing']} trainings are missing.**"
    return words


def _has_intervals(document: Document) -> bool:
    rows = (row for group in document["groups"] for row in group["cells"].values())
    return any(cell.get("interval") for row in rows for cell in row.values())


def notes(document: Document) -> list[str]:
    rows = [f"{row['name']}: {row['note']}" for row in document["rows"] if row["note"]]
    failures = {
        f"{name}: no result: {why}"
        for group in document["groups"]
        for name, why in group.get("failures", {}).items()
    }
    return [*rows, *document["notes"], *resolution(document["groups"]), *sorted(failures)]


def tables(document: Document) -> str:
    """A Markdown table for each part, with a line for each row."""
    texts = []
    for part, grid in grids(document).items():
        head, *lines = grid
        rule = ["---", *["---:"] * (len(head) - 1)]
        rows = "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *lines])
        texts.append(f"**{part}**{_trainings(document, part)}\n\n{rows}\n")
    return "\n".join(texts)


def _trainings(document: Document, part: str) -> str:
    counts = sorted({g["trainings"] for g in document["groups"] if g["part"] == part})
    if counts == [0]:
        return ""
    return f", {' to '.join(map(str, dict.fromkeys([counts[0], counts[-1]])))} trainings"


def grids(document: Document) -> dict[str, Grid]:
    """Part -> its table as text, the headings first; rows and columns without any figure are
    left out.
    """
    parts: dict[str, list[Mapping[str, Any]]] = {}
    for group in document["groups"]:
        parts.setdefault(group["part"], []).append(group)
    return {part: _grid(document, groups) for part, groups in parts.items()}


def _grid(document: Document, groups: Sequence[Mapping[str, Any]]) -> Grid:
    places = [(group, column) for group in groups for column in document["columns"]]
    columns = [_texts(document, group, column, len(groups) > 1) for group, column in places]
    shown = [column for column in columns if any(column[1:])]
    names = ["", *(row["name"] for row in document["rows"])]
    head, *lines = zip(names, *shown, strict=True)
    return [list(head), *(list(line) for line in lines if any(line[1:]))]


def _texts(
    document: Document, group: Mapping[str, Any], column: Mapping[str, Any], several: bool
) -> list[str]:
    """A heading and the cells below it."""
    heading = f"{group['name']} {column['title']}" if several else column["title"]
    cells = [group["cells"][row["name"]][column["name"]] for row in document["rows"]]
    return [heading, *(cell_text(cell, column["form"]) for cell in cells)]


def cell_text(cell: Mapping[str, Any], form: str) -> str:
    """
    >>> cell_text({"mean": 51.26, "deviation": 0.44, "printed": 51.1}, ".1f")
    '51.3 ±0.4 [51.1]'
    >>> cell_text({"mean": None, "deviation": None, "printed": None}, ".1f")
    ''
    """
    parts = []
    if cell["mean"] is not None:
        parts.append(format(cell["mean"], form))
    if cell["deviation"] is not None:
        parts.append(f"±{format(cell['deviation'], form)}")
    if cell.get("interval"):
        parts.append(f"({'-'.join(format(end, form) for end in cell['interval'])})")
    if cell["printed"] is not None:
        parts.append(f"[{format(cell['printed'], form)}]")
    return " ".join(parts)
