"""Every method on real images: CIFAR-10 and FEMNIST, FedPer and FedRep, two seeds of training.

    python bench/comparisons.py --data-root DIR --runs FOLDER [--write]
    python bench/comparisons.py --pages

Small federations that are trained until they overfit: a CNN of width 16, 12 rounds
of 3 epochs with rate 0.05, five clients, Dirichlet 0.5; CIFAR-10 with 360 images a client on
average, FEMNIST with 300. The target is the client with the most test samples, which gives
an audit the most power. All methods with their defaults and variants, four oracles.
Runs, oracles and cells stay in FOLDER: called again, it resumes and repeats nothing.
`--write` puts documents, Markdown and pictures into results/ and the tables into docs/results.md.
`--pages` only makes HTML pages and pictures from the documents in results/. The pages are not kept
in the repository. Documents there have four digits, so a last digit on a page may differ by one
from Markdown and tables, which were made from all digits.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pfedul import Federation
from pfedul.base.text import readable
from pfedul.compare.cells import Comparison, cells_of
from pfedul.compare.comparison import compare
from pfedul.compare.document import merged
from pfedul.compare.folder import PAGE_FILE, SCATTER_FILE
from pfedul.compare.page import comparison_page, write_pages
from pfedul.compare.scatter import save_scatter
from pfedul.compare.tables import retraining_seconds, verdict_words
from pfedul.report.formats import as_html
from speed import write_page

ROOT = Path(__file__).parent.parent
PAGE, RESULTS = ROOT / "docs/results.md", ROOT / "results"
SEEDS = (0, 1)
ORACLES = 4

SETTINGS: dict[str, Any] = {
    "partition": "dirichlet:0.5",
    "small_clients": "drop",
    "model": "cnn:width=16",
    "clients": 5,
    "rounds": 12,
    "local_epochs": 3,
    "lr": 0.05,
    "record": "all",
    "evaluate_every": 0,
}
DATA = {"cifar10": {"samples": 1800}, "femnist": {"samples": 1500}}
PERSONALIZATIONS = ("fedrep", "fedper")


def trained(run: Path, data: str, personalization: str, seed: int, root: str) -> Federation:
    """A run of the bench, trained to its last round."""
    if (run / "ledger.db").is_file():
        federation = Federation.open(run, data_root=root)
    else:
        chosen = {**SETTINGS, **DATA[data], "personalization": personalization, "seed": seed}
        federation = Federation.create(run, data=data, data_root=root, **chosen)
    federation.train()
    return federation


def target_of(federation: Federation) -> str:
    """The client with the most test samples; the first by name where several have as many."""
    members = federation.members
    return max(federation.clients, key=lambda name: members[name].test_samples)


def compared(federation: Federation) -> dict[str, Any]:
    """All methods from this checkpoint."""
    cells = cells_of(["all"], [None])
    comparison = Comparison(federation, (target_of(federation),), cells, ORACLES)
    return compare(
        comparison, _progress, lambda done, of, now: _progress(f"cells {now}", done, of)
    )[1]


def _progress(what: str, done: int, of: int) -> None:
    print(f"\r{what[:70]:<70} {done}/{of}", end="", file=sys.stderr)


def document_of(data: str, personalization: str, runs: Path, root: str) -> dict[str, Any]:
    """One federation over the seeds of its training."""
    documents = []
    for seed in SEEDS:
        name = f"{data}-{personalization}-{seed}"
        with trained(runs / name, data, personalization, seed, root) as federation:
            documents.append(compared(federation))
    return merged(documents)


def table(document: Mapping[str, Any]) -> str:
    """The methods as Markdown."""
    retraining = retraining_seconds(document)
    head = ("method", "verdict", "excess", "stale AUC", "accuracy", "PPS", "CFI", "CPU", "rounds")
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * (len(head) - 2)]
    rows = [{**row, "verdicts": [row["verdict"]], "rounds": None} for row in document["references"]]
    for row in [*rows, *document["methods"]]:
        lines.append("| " + " | ".join(_cells(row, document, retraining)) + " |")
    return "\n".join(lines)


def _cells(row: Mapping[str, Any], document: Mapping[str, Any], retraining: float) -> list[str]:
    if row["pps"] is None:
        return [readable(row["label"]), str(row["failure"]), *[""] * 7]
    return [
        readable(row["label"]),
        verdict_words(row["verdicts"]),
        f"{row['mean_excess']:+.3f}",
        _stale(row["label"], document),
        f"{row['remaining_accuracy']:.3f}",
        f"{row['pps']:.3f}",
        f"{row['cfi']:.3f}",
        f"{row['cpu_seconds'] / retraining:.1%}",
        "" if row["rounds"] is None else f"{row['rounds']:.0f}",
    ]


def _stale(label: str, document: Mapping[str, Any]) -> str:
    """AUC of the loss attack through the head that the target kept, mean over seeds."""
    rows = [row for row in [*document["references"], *document["cells"]] if row["label"] == label]
    values = [
        test["figures"]["candidate"]["value"]
        for row in rows
        for test in row["tests"]
        if (test["surface"], test["attack"]) == ("stale", "threshold")
    ]
    return f"{sum(values) / len(values):.3f}" if values else ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure; print the tables, or write everything down."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-root")
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--pages", action="store_true")
    options = parser.parse_args(arguments)
    if options.pages:
        _write_pages()
    elif options.data_root is None or options.runs is None:
        parser.error("give --data-root and --runs, or --pages")
    else:
        _measure(options.data_root, options.runs, options.write)


def _measure(root: str, runs: Path, write: bool) -> None:
    tables = []
    for data in DATA:
        for personalization in PERSONALIZATIONS:
            document = document_of(data, personalization, runs, root)
            tables.append(f"### {data}, {personalization}\n\n{table(document)}")
            if write:
                _write(document, RESULTS / f"{data}-{personalization}")
    text = "\n\n".join(tables) + "\n"
    if write:
        write_page(PAGE, "comparisons", text)
    else:
        print(text)


def _write_pages() -> None:
    """HTML pages and pictures of the documents that are in results/."""
    for file in sorted(RESULTS.glob("*/comparison.json")):
        document = json.loads(file.read_text(encoding="utf-8"))
        page = file.with_name(PAGE_FILE)
        page.write_text(as_html(comparison_page(document)), encoding="utf-8", newline="\n")
        save_scatter(document, file.with_name(SCATTER_FILE))
        print(page)


def _write(document: Mapping[str, Any], folder: Path) -> None:
    kept = {**document, "configuration": _without_paths(document["configuration"])}
    files = write_pages(kept, folder)
    files["json"].write_text(json.dumps(_rounded(kept)) + "\n", encoding="utf-8")


def _without_paths(configuration: str) -> str:
    """Leave out where the data were on the machine that measured."""
    lines = configuration.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("data_root"))


def _rounded(value: Any) -> Any:
    """The same data to four digits: a fifth of the size."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
