"""Where a comparison keeps its branches and results: RUN/comparisons/KEY, one folder per cell.

KEY stands for the targets, the tensors of the run and the version of pfedul: after another
round, or with another version, it is another comparison. An unfinished branch still has the
targets in it, and results name clients, so a whole comparison is deleted when one of its
clients is forgotten (store/copies.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pfedul.base.hashes import digest
from pfedul.compare.cells import (
    ALL,
    Cell,
    CellResult,
    Comparison,
    cells_of,
    needs_own_base,
    options_of,
)
from pfedul.run.run import Run
from pfedul.store.copies import CLIENTS_FILE
from pfedul.store.folder import own_errors
from pfedul.store.marker import mark
from pfedul.store.paths import COMPARISONS
from pfedul.unlearn.base import Method
from pfedul.version import __version__

FORMAT = 5
"""The format of results; those in another format are worked out again, from the same branch."""

RESULT_FILE = "result.json"
BRANCH = "branch"
PAGE_FILE, MARKDOWN_FILE, JSON_FILE = "comparison.html", "comparison.md", "comparison.json"
SCATTER_FILE = "scatter.png"


def folder_of(comparison: Comparison) -> Path:
    """The folder of this comparison; it is made if there is none."""
    run, requests = comparison.run, comparison.requests
    targets = sorted(comparison.targets) if len(requests) == 1 else requests
    words = [targets, comparison.oracles, run.store.state_digest(), run.rounds, __version__]
    folder = run.store.path / COMPARISONS / digest(json.dumps(words).encode())[:16]
    with own_errors(folder):
        mark(folder)
        write_json(folder / CLIENTS_FILE, run.clients)
    return folder


def base_of(run: Run, method: Method, folder: Path) -> Path:
    """The run that cells of a method branch from."""
    if not needs_own_base(run, method):
        return run.store.path
    words = json.dumps(dict(method.needs.layout), sort_keys=True)
    return folder / f"base-{digest(words.encode())[:10]}"


def read_result(folder: Path, cell: Cell) -> CellResult | None:
    """The result of a cell; None where it has not finished, or is in another format."""
    return _read(folder / cell.key / RESULT_FILE)


def _read(file: Path) -> CellResult | None:
    if not file.is_file():
        return None
    result: CellResult = json.loads(file.read_text(encoding="utf-8"))
    return result if result.get("format") == FORMAT else None


def earlier_cells(folder: Path, cells: Sequence[Cell]) -> list[Cell]:
    """Cells that earlier calls finished here and that are not among `cells`, in the order of `all`.

    They were compared on the same run, with the same targets and oracles.
    """
    keys = {cell.key for cell in cells}
    present = [_cell_in(file.parent) for file in folder.glob(f"*/{RESULT_FILE}")]
    earlier = [cell for cell in present if cell is not None and cell.key not in keys]
    order = [cell.label for cell in cells_of([ALL], [None])]
    return sorted(earlier, key=lambda cell: _rank(cell, order))


def _cell_in(folder: Path) -> Cell | None:
    """The cell of a folder; None where its result is in another format."""
    result = _read(folder / RESULT_FILE)
    if result is None:
        return None
    cell = Cell(result["label"], options_of(result["label"], result["seed"]))
    return cell if cell.key == folder.name else None


def _rank(cell: Cell, order: Sequence[str]) -> tuple[int, str, int]:
    place = order.index(cell.label) if cell.label in order else len(order)
    return place, cell.label, -1 if cell.seed is None else cell.seed


def write_json(file: Path, value: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write a file whole or not at all."""
    draft = file.with_suffix(".new")
    with own_errors(file.parent):
        draft.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
        os.replace(draft, file)
