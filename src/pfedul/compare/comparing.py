"""Compare methods: oracles first, then all cells in parallel, then one document.

Cells are done in processes of their own, one thread each. What is finished is kept:
interrupted and asked again, only the other cells are worked on, and those go on from
their last noted step. A method that fails is a row that says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pfedul.audit.ask.answers import ask_all, surfaces_of
from pfedul.audit.judge.case import Case, Examiner
from pfedul.audit.models import Retrained, check_ready, samples_of, trained_oracles, untouched_state
from pfedul.base.threads import one_core
from pfedul.compare.bases import Base, base_for, needs_own_base
from pfedul.compare.budget import with_budget
from pfedul.compare.cells import Cell
from pfedul.compare.document import document
from pfedul.compare.folder import earlier_cells, folder_of, read_result
from pfedul.compare.order import Order, Result
from pfedul.compare.process import Children, Told, in_process, threads_for
from pfedul.engine.processes import pickle_bench
from pfedul.errors import PfedulError
from pfedul.protocol import OnStage
from pfedul.run.retrained import oracle_recipes
from pfedul.unlearn.checks import check_method

if TYPE_CHECKING:
    from pfedul.federation import Federation

OnCell = Callable[[int, int, str], None]
"""Told of progress: cells that are done, cells in all, what is being worked on."""


@dataclass
class Comparing:
    """A comparison that was asked for."""

    federation: Federation
    targets: tuple[str, ...]
    cells: Sequence[Cell]
    oracles: int = 2
    workers: int | None = None

    def check(self) -> None:
        """Refuse what cannot be compared, before anything is trained."""
        check_ready(self.federation, self.targets, "methods are compared")
        if self.oracles < 2:
            raise PfedulError("A comparison needs at least 2 oracles: their spread is its measure.")
        refused = self.refusals
        if len(refused) == len(self.cells):
            raise PfedulError(_nothing_to_try(list(dict.fromkeys(refused.values()))))

    @property
    def refusals(self) -> dict[str, str]:
        """Cells that cannot be tried on this run, each with the reason."""
        found = {}
        for cell in self.cells:
            if needs_own_base(self.federation, cell.method):
                continue
            try:
                check_method(self.federation, self.targets, cell.options, ())
            except PfedulError as error:
                found[cell.key] = str(error)
        return found


def _nothing_to_try(reasons: Sequence[str]) -> str:
    if len(reasons) == 1:
        return reasons[0]
    return f"No method that was asked for can be tried on this run; of the first: {reasons[0]}"


def compare(asked: Comparing, on_stage: OnStage, on_cell: OnCell) -> tuple[Path, dict[str, Any]]:
    """Do all of it; returns the folder of the comparison and its document."""
    asked.check()
    federation = asked.federation
    recipes = oracle_recipes(federation, asked.targets, asked.oracles)
    oracles = trained_oracles(federation, asked.targets, recipes, on_stage)
    folder = folder_of(federation, asked.targets, asked.oracles)
    order, examiner = _prepared(asked, folder, oracles, on_stage)
    bases = _own_bases(asked, folder, on_stage)
    earlier = earlier_cells(folder, asked.cells)
    results = _worked(asked, order, bases, earlier, on_cell)
    return folder, document(asked, earlier, folder, oracles, examiner, results)


def _prepared(
    asked: Comparing, folder: Path, oracles: Sequence[Retrained], on_stage: OnStage
) -> tuple[Order, Examiner]:
    """What all cells have in common: the samples, and the answers of what they are judged by."""
    federation, bench = asked.federation, asked.federation.bench
    untouched = untouched_state(federation, asked.targets)
    states = {oracle.recipe.name: oracle.state for oracle in oracles} | {"untouched": untouched}
    exam = samples_of(federation, asked.targets)
    answers = ask_all(bench, exam, states, surfaces_of(bench), on_stage)
    known = tuple(answers[oracle.recipe.name] for oracle in oracles)
    before = answers["untouched"]
    case = Case(exam, surfaces_of(bench), before, known, before, target=" and ".join(asked.targets))
    examiner = Examiner(case)
    on_stage("held-out oracles", 0, 1)
    with one_core():
        held_out = tuple(control.verdict for control in examiner.held_out)
    on_stage("held-out oracles", 1, 1)
    shell = Order(
        key="",
        label="",
        options=asked.cells[0].options,
        run=federation.store.path,
        folder=folder,
        targets=asked.targets,
        settings=federation.settings,
        bench=pickle_bench(bench),
        stale=untouched.stale,
        exam=exam,
        oracles=known,
        untouched=before,
        held_out=held_out,
        clusters=federation.clusters,
    )
    return shell, examiner


def _own_bases(asked: Comparing, folder: Path, on_stage: OnStage) -> dict[str, Base]:
    """For methods that need another layout of training: a run to branch from, by method."""
    federation = asked.federation
    found: dict[str, Base] = {}
    for cell in asked.cells:
        method, known = cell.method, read_result(folder, cell)
        if known is None and method.name not in found and needs_own_base(federation, method):
            found[method.name] = base_for(
                federation, asked.targets, folder, method.needs.layout, on_stage
            )
    return found


def _branching(bases: Mapping[str, Base], cell: Cell) -> dict[str, Any]:
    """What differs in the order of a cell that branches from another run."""
    base = bases.get(cell.method.name)
    if base is None:
        return {}
    names = ("run", "settings", "stale", "clusters", "notes")
    return {name: getattr(base, name) for name in names}


def _worked(
    asked: Comparing,
    shell: Order,
    bases: Mapping[str, Base],
    earlier: Sequence[Cell],
    on_cell: OnCell,
) -> dict[str, Result]:
    """The results of all cells, by key; those that were there before are not done again."""
    every = [*asked.cells, *earlier]
    found = _known_results(asked, earlier, shell.folder)
    done = sum(cell.key in found for cell in asked.cells)
    board = _Board(len(asked.cells), done, on_cell)
    children = Children()
    with threads_for(children, asked.workers) as pool:
        for cells in _in_order(asked.cells):
            todo = [cell for cell in cells if cell.key not in found]
            orders = [
                replace(
                    shell,
                    key=cell.key,
                    label=cell.label,
                    options=with_budget(cell, every, found),
                    **_branching(bases, cell),
                )
                for cell in todo
            ]
            work = partial(in_process, children)
            found |= _work_on(dict(zip(todo, orders, strict=True)), work, board, pool)
    return found


def _in_order(cells: Sequence[Cell]) -> tuple[list[Cell], list[Cell]]:
    """Budgets are known when the others are done."""
    first = [cell for cell in cells if not cell.method.does.budgeted]
    return first, [cell for cell in cells if cell.method.does.budgeted]


def _known_results(asked: Comparing, earlier: Sequence[Cell], folder: Path) -> dict[str, Result]:
    """What need not be worked on: it cannot be tried, or was found before."""
    found: dict[str, Result] = {key: {"failure": why} for key, why in asked.refusals.items()}
    for cell in earlier:
        found[cell.key] = read_result(folder, cell) or {}
    for cells in _in_order(asked.cells):
        for cell in cells:
            known = read_result(folder, cell)
            options = with_budget(cell, [*asked.cells, *earlier], found)
            if known and known["method"] == options.method:
                found[cell.key] = known
    return found


def _work_on(
    orders: Mapping[Cell, Order],
    work: Callable[[Order, Told], Result],
    board: _Board,
    pool: ThreadPoolExecutor,
) -> dict[str, Result]:
    """Results of cells that are worked on at the same time, by key."""
    waiting: dict[Future[Result], Cell] = {}
    for cell, order in orders.items():
        told = partial(board.at_work, cell)
        waiting[pool.submit(work, order, told)] = cell
    found = {}
    for future in as_completed(waiting):
        found[waiting[future].key] = future.result()
        board.finished(waiting[future])
    return found


class _Board:
    """Keeps the one line of progress over all cells."""

    def __init__(self, cells: int, done: int, on_cell: OnCell) -> None:
        self._cells, self._done, self._on_cell = cells, done, on_cell
        self._now: dict[str, str] = {}
        self._lock = threading.Lock()
        on_cell(done, cells, "")

    def at_work(self, cell: Cell, words: dict[str, Any]) -> None:
        with self._lock:
            self._now[cell.key] = f"{cell.label} {words['stage']} {words['done']}/{words['of']}"
            self._tell()

    def finished(self, cell: Cell) -> None:
        with self._lock:
            self._now.pop(cell.key, None)
            self._done += 1
            self._tell()

    def _tell(self) -> None:
        self._on_cell(self._done, self._cells, ", ".join(self._now.values()))
