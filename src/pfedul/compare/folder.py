"""Where a comparison keeps its branches and results: RUN/comparisons/KEY, one folder for each cell.

KEY stands for the targets, the tensors of the run and the version of pfedul: after another
round, or with another version, it is another comparison. A branch in which a cell has not
finished still has the targets in it, and results name clients; so whole comparisons go when
one of their clients is forgotten (audit/places.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pfedul.base.tensorfile import digest
from pfedul.compare.cells import ALL, Cell, cells_of, options_of
from pfedul.store.copies import CLIENTS_FILE
from pfedul.store.folder import own_errors
from pfedul.store.paths import COMPARISONS
from pfedul.version import __version__

if TYPE_CHECKING:
    from pfedul.federation import Federation

FORMAT = 2
"""Of results: those of another version of pfedul are worked out anew, from the same branch."""

RESULT_FILE = "result.json"
BRANCH = "branch"
PAGE_FILE, MARKDOWN_FILE, JSON_FILE = "comparison.html", "comparison.md", "comparison.json"
SCATTER_FILE = "scatter.png"


def folder_of(federation: Federation, targets: Sequence[str], oracles: int) -> Path:
    """The folder of this comparison, made if need be."""
    state = federation.store.state_digest(), federation.rounds, __version__
    words = [sorted(targets), oracles, *state]
    place = federation.store.path / COMPARISONS / digest(json.dumps(words).encode())[:16]
    with own_errors(place):
        place.mkdir(parents=True, exist_ok=True)
        write_json(place / CLIENTS_FILE, federation.clients)
    return place


def read_result(folder: Path, cell: Cell) -> dict[str, Any] | None:
    """What a finished cell found; None where it has not finished, or found it in another form."""
    file = folder / cell.key / RESULT_FILE
    if not file.is_file():
        return None
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found if found.get("format") == FORMAT else None


def earlier_cells(folder: Path, asked: Sequence[Cell]) -> list[Cell]:
    """Cells that earlier calls finished here and that are not asked for now, in the order of `all`.

    The folder stands for the run, the targets and the oracles, so their rows can stand beside
    the new ones.
    """
    wanted = {cell.key for cell in asked}
    found = [_cell_in(file.parent) for file in folder.glob(f"*/{RESULT_FILE}")]
    earlier = [cell for cell in found if cell is not None and cell.key not in wanted]
    order = [cell.label for cell in cells_of([ALL], [None])]
    return sorted(earlier, key=lambda cell: _rank(cell, order))


def _cell_in(place: Path) -> Cell | None:
    """The cell that a folder is of; None where its result is in another form."""
    found = json.loads((place / RESULT_FILE).read_text(encoding="utf-8"))
    if found.get("format") != FORMAT:
        return None
    cell = Cell(found["label"], options_of(found["label"], found["seed"]))
    return cell if cell.key == place.name else None


def _rank(cell: Cell, order: Sequence[str]) -> tuple[int, str, int]:
    place = order.index(cell.label) if cell.label in order else len(order)
    return place, cell.label, -1 if cell.seed is None else cell.seed


def write_json(file: Path, value: Mapping[str, Any] | Sequence[Any]) -> None:
    """Whole or not at all."""
    draft = file.with_suffix(".new")
    with own_errors(file.parent):
        draft.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
        os.replace(draft, file)
