"""The page of a comparison: the scatter, the table, each surface, what failed, how to repeat it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from pfedul.compare.places import JSON_FILE, MARKDOWN_FILE, PAGE_FILE, SCATTER_FILE, write_json
from pfedul.compare.scatter import save_scatter, scatter_figure
from pfedul.report.blocks import Block, Code, Facts, Gallery, Items, Page, Section, Table, Text
from pfedul.report.html import as_html
from pfedul.report.markdown import as_markdown
from pfedul.report.words import counted, joined, number, readable, signed
from pfedul.show import human_bytes
from pfedul.store import own_errors

Json = Mapping[str, Any]


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
    title = f"How to forget {joined(found['targets'])}: {len(found['methods'])} ways compared"
    parts = [found["personalization"], found["data"], f"{found['rounds']} rounds"]
    sections = (
        Section("picture", "Forgetting against preservation", (_picture(found), Text(_READING))),
        Section("table", "All methods", tuple(_tables(found))),
        Section("surfaces", "What attacks reach, by surface", tuple(_surfaces(found))),
        Section("references", "What they are measured against", (_references(found),)),
        Section("notes", "What the methods said, and what failed", tuple(_notes(found))),
        Section("repeat", "How to repeat it", _repeat(found)),
    )
    return Page(title, " · ".join(map(str, parts)), None, sections)


_READING = (
    "The best place is at the top, over 0 of the lower axis: attacks find as much as in a "
    "retrained model, and those who stay keep their accuracy. The untouched run is where nothing "
    "was forgotten. The oracles are retrained without the client, each judged beside the others; "
    "the shaded stretch between them shows how far apart retrained models are by chance alone "
    "(with two oracles it is as wide as their one difference). Left of it is no merit: a model "
    "that is attacked with less success than a retrained one stands out as well."
)


def _picture(found: Json) -> Gallery:
    caption = "Every method at the mean over its seeds."
    kinds = ("untouched", "oracle", "method", "control", "band")
    return Gallery(caption, (scatter_figure(found),), kinds)


def _tables(found: Json) -> list[Block]:
    sound = [row for row in found["methods"] if row["pps"] is not None]
    forgetting = Table(
        "Forgetting and preservation, mean over seeds",
        (
            *("method", "verdict", "mean excess", "largest excess", "remaining accuracy"),
            *("PPS", "CFI", "lowest and highest client"),
        ),
        tuple(_forgetting_row(row) for row in [*_reference_methods(found), *sound]),
        words=2,
    )
    cost = Table(
        "Cost, mean over seeds",
        (
            *("method", "CPU seconds", "of retraining", "seconds", "global rounds", "sent"),
            "kept by training",
        ),
        tuple(_cost_row(row, retraining_seconds(found)) for row in sound),
    )
    return [forgetting, cost]


def _reference_methods(found: Json) -> list[dict[str, Any]]:
    return [
        {**row, "label": f"({row['label']})", "verdicts": [row["verdict"]]}
        for row in found["references"]
    ]


def _forgetting_row(row: Json) -> tuple[str, ...]:
    ends = f"{number(row['lowest_ratio'], 2)} to {number(row['highest_ratio'], 2)}"
    return (
        readable(row["label"]),
        verdict_words(row["verdicts"]),
        signed(row["mean_excess"]),
        signed(row["largest_excess"]),
        number(row["remaining_accuracy"]),
        number(row["pps"]),
        number(row["cfi"]),
        ends,
    )


def verdict_words(verdicts: Sequence[str]) -> str:
    """Verdicts of several seeds in a few words.

    >>> verdict_words(["forgotten", "not forgotten", "forgotten"])
    'forgotten (2), not forgotten (1)'
    """
    kinds = {verdict: verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)}
    if len(kinds) == 1:
        return next(iter(kinds))
    return ", ".join(f"{verdict} ({count})" for verdict, count in kinds.items())


def retraining_seconds(found: Json) -> float:
    """CPU seconds of retraining: the mean over the oracles."""
    spent = [row["cpu_seconds"] for row in found["references"] if row["label"] != "untouched"]
    return float(sum(spent)) / len(spent)


def _cost_row(row: Json, retraining: float) -> tuple[str, ...]:
    return (
        readable(row["label"]),
        number(row["cpu_seconds"], 1),
        f"{100 * row['cpu_seconds'] / retraining:.1f} %",
        number(row["seconds"], 1),
        f"{row['rounds']:.0f}",
        human_bytes(round(row["bytes_sent"])),
        human_bytes(round(row["bytes_stored"])),
    )


def _surfaces(found: Json) -> list[Block]:
    """One table for each attack: AUC by surface, and beside it the difference to the oracles."""
    rows = [*found["references"], *found["cells"]]
    tests: Sequence[Json] = next((row["tests"] for row in rows if row["tests"]), [])
    attacks = dict.fromkeys(test["attack"] for test in tests)
    return [_attack_table(attack, rows) for attack in attacks]


def _attack_table(attack: str, rows: Sequence[Json]) -> Table:
    known = [row for row in rows if any(test["attack"] == attack for test in row["tests"])]
    surfaces = list(dict.fromkeys(test["surface"] for row in known for test in row["tests"]))
    head = ("model", "seed", *surfaces)
    lines = tuple(_attack_row(attack, row, surfaces) for row in known)
    return Table(f"AUC of the attack '{attack}' (difference to the oracles)", head, lines, words=2)


def _attack_row(attack: str, row: Json, surfaces: Sequence[str]) -> tuple[str, ...]:
    tests = [test for test in row["tests"] if test["attack"] == attack]
    cells = [_auc_cell([t for t in tests if t["surface"] == surface]) for surface in surfaces]
    seed = row.get("seed")
    return readable(row["label"]), "" if seed is None else str(seed), *cells


def _auc_cell(tests: Sequence[Json]) -> str:
    """Mean over the tests of several runs, where a reference has them."""
    if not tests:
        return ""
    value = fmean(test["figures"]["candidate"]["value"] for test in tests)
    difference = fmean(test["difference"]["value"] for test in tests)
    return f"{number(value)} ({signed(difference)})"


def _references(found: Json) -> Table:
    rows = tuple(_forgetting_row(row) for row in _reference_methods(found))
    head = (
        *("model", "verdict", "mean excess", "largest excess", "remaining accuracy"),
        *("PPS", "CFI", "lowest and highest client"),
    )
    return Table("The untouched run, and each oracle beside the others", head, rows, words=2)


def _notes(found: Json) -> list[Block]:
    said = tuple(
        f"{readable(cell['label'])}: {note}." for cell in found["cells"] for note in cell["notes"]
    )
    failed = tuple(
        f"{cell['label']}: {cell['failure']}" for cell in found["cells"] if cell["failure"]
    )
    blocks: list[Block] = [Items(tuple(dict.fromkeys(said)))] if said else []
    if failed:
        count = counted(len(failed), "cell")
        blocks += [Text(f"{count} came to no result.", "warning"), Items(failed)]
    return blocks or [Text("Nothing was noted and nothing failed.")]


def _repeat(found: Json) -> tuple[Block, ...]:
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    facts = (("made at", found["made_at"]), ("versions", versions), ("machine", found["machine"]))
    return (
        Facts(facts),
        Code("The command", found["command"]),
        Code("The configuration of the run", found["configuration"]),
    )
