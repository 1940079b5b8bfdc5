"""What a comparison found, for Python and notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfedul.base.result import Result
from pfedul.compare.cells import Comparison, cells_of, seeds_of
from pfedul.compare.comparison import compare
from pfedul.compare.page import write_pages
from pfedul.compare.tables import verdict_words, verdicts_of
from pfedul.report.material import Json
from pfedul.run.callbacks import Callback
from pfedul.run.run import Run


@dataclass(frozen=True, repr=False)
class ComparisonResult(Result):
    """Every method that was compared; `document` is all of it (docs/json.md).

    `files` are the page, the table in Markdown, the picture and the document.
    """

    document: Json
    files: dict[str, Path]

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(self.document["targets"])

    @property
    def failures(self) -> dict[str, str]:
        """The methods that came to no result, each with the reason."""
        rows = self.document["methods"]
        return {row["label"]: row["failure"] for row in rows if row["failure"] is not None}

    def _facts(self) -> dict[str, Any]:
        return {
            "targets": list(self.targets),
            "methods": [row["label"] for row in self.document["methods"]],
            "failed": list(self.failures) or None,
            "page": str(self.files["page"]),
        }

    def _rows(self) -> list[dict[str, Any]]:
        return [_row(row) for row in (*self.document["references"], *self.document["methods"])]


def compared(
    run: Run,
    targets: Sequence[str],
    methods: Sequence[str],
    seeds: int,
    oracles: int,
    workers: int | None,
    callback: Callback,
    in_turn: bool,
) -> ComparisonResult:
    """Compare these methods, and write the pages into the comparison's folder."""
    cells = cells_of(methods, seeds_of(run.settings.seed, seeds))
    comparison = Comparison(run, tuple(dict.fromkeys(targets)), cells, oracles, workers, in_turn)

    def on_cell(done: int, of: int, now: str) -> None:
        callback.on_stage("cells", done, of, now)

    folder, document = compare(comparison, callback.on_stage, on_cell)
    return ComparisonResult(document, write_pages(document, folder))


def _row(row: Json) -> dict[str, Any]:
    """The figures by which methods are chosen; references have no cost in rounds."""
    verdicts = verdicts_of(row)
    words = {"method": row["label"], "verdict": verdict_words(verdicts) if verdicts else None}
    return {**words, **{name: row.get(name) for name in _FIGURES}, "failure": row.get("failure")}


_FIGURES = (
    *("removed", "mean_excess", "pps", "cfi", "remaining_accuracy"),
    *("cpu_seconds", "cpu_speedup", "rounds"),
)
