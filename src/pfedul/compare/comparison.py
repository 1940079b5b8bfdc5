"""Compare methods: oracles first, then all cells in parallel, then one document.

Each cell runs in its own process with one thread. Finished cells are kept: after an
interruption the next call works on the others only, and these resume from their last
noted step. A method that fails is a row that says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from pfedul.audit import models
from pfedul.audit.ask.answers import ask_all, surfaces_of
from pfedul.audit.judge.case import Case, Examiner
from pfedul.base.threads import one_core
from pfedul.compare.cells import Cell, CellResult, Comparison, budgeted_last, with_budget
from pfedul.compare.document import document
from pfedul.compare.folder import base_of, earlier_cells, folder_of, read_result
from pfedul.compare.process import (
    CellTask,
    Checkpoint,
    Children,
    Common,
    in_process,
    threads_for,
)
from pfedul.compare.shared_model import shared_accuracy
from pfedul.engine.processes import pickle_bench
from pfedul.protocol import OnStage
from pfedul.run.retrained import Recipe, open_recipe, oracle_recipes
from pfedul.run.run import Run
from pfedul.unlearn.base import Method

OnCell = Callable[[int, int, str], None]
"""Called with the cells that are done, the cells in all, and what is being worked on."""


def compare(
    comparison: Comparison, on_stage: OnStage, on_cell: OnCell
) -> tuple[Path, dict[str, Any]]:
    """Run the comparison; returns its folder and its document."""
    comparison.check()
    run, targets = comparison.run, comparison.targets
    recipes = oracle_recipes(run, targets, comparison.oracles)
    oracles = models.trained_oracles(run, targets, recipes, on_stage)
    folder = folder_of(comparison)
    common, examiner = _common(comparison, folder, oracles, on_stage)
    checkpoints = _checkpoints(comparison, folder, on_stage)
    earlier = earlier_cells(folder, comparison.cells)
    results = _results(comparison, common, checkpoints, earlier, on_cell)
    return folder, document(comparison, earlier, folder, oracles, examiner, results)


def _common(
    comparison: Comparison, folder: Path, oracles: Sequence[models.Retrained], on_stage: OnStage
) -> tuple[Common, Examiner]:
    """What all cells are judged by: the answers of the untouched run and of the oracles."""
    run, targets = comparison.run, comparison.targets
    states = {oracle.recipe.name: oracle.state for oracle in oracles}
    states["untouched"] = models.untouched_state(run, targets)
    samples, surfaces = models.samples_of(run, targets), surfaces_of(run.bench)
    answers = ask_all(run.bench, samples, states, surfaces, on_stage)
    known, before = tuple(answers[o.recipe.name] for o in oracles), answers["untouched"]
    case = Case(samples, surfaces, before, known, before, target=" and ".join(targets))
    examiner = Examiner(case)
    on_stage("held-out oracles", 0, 1)
    with one_core():
        held_out = tuple(control.verdict for control in examiner.held_out)
    on_stage("held-out oracles", 1, 1)
    bench = pickle_bench(run.bench)
    return Common(folder, comparison.requests, bench, case, held_out), examiner


def _checkpoints(comparison: Comparison, folder: Path, on_stage: OnStage) -> dict[Path, Checkpoint]:
    """The runs that unfinished cells branch from, by folder.

    Most branch from the run itself. KNOT works on runs that were trained in clusters from the
    first round on: for it the same configuration is trained once more, with the same seed and
    data. Before and after are then those of that run; its notes say what the layout costs.
    """
    run = comparison.run
    checkpoints = {run.store.path: _checkpoint(run, comparison, notes=())}
    for cell in comparison.cells:
        base = base_of(run, cell.method, folder)
        if base not in checkpoints and read_result(folder, cell) is None:
            checkpoints[base] = _trained_checkpoint(comparison, cell.method, base, on_stage)
    return checkpoints


def _trained_checkpoint(
    comparison: Comparison, method: Method, base: Path, on_stage: OnStage
) -> Checkpoint:
    """The run's configuration in the layout of a method; training resumes where it stopped."""
    run, layout = comparison.run, dict(method.needs.layout)
    clients, record = tuple(run.clients), str(layout.get("record", "none"))
    recipe = Recipe("base", base, run.settings.seed, clients, record, layout)
    total = run.rounds * len(clients)
    with closing(
        open_recipe(run, recipe, lambda replies: on_stage("own layout", replies, total))
    ) as made:
        words = ", ".join(f"{name}={value}" for name, value in layout.items())
        note = (
            f"branches from a run of its own, trained with {words}; its mean accuracy before "
            f"anything was forgotten is {made.measure().mean:.3f}, that of the run "
            f"{run.measure().mean:.3f}"
        )
        return _checkpoint(made, comparison, notes=(note,))


def _checkpoint(run: Run, comparison: Comparison, notes: tuple[str, ...]) -> Checkpoint:
    return Checkpoint(
        run.store.path,
        run.settings,
        models.personal_of(run, comparison.targets),
        run.clusters,
        shared_accuracy(run, comparison.remaining),
        notes,
    )


def _results(
    comparison: Comparison,
    common: Common,
    checkpoints: Mapping[Path, Checkpoint],
    earlier: Sequence[Cell],
    on_cell: OnCell,
) -> dict[str, CellResult]:
    """The results of all cells, by key; those that are there already are not done again."""
    results = _known_results(comparison, earlier, common.folder)
    done = sum(cell.key in results for cell in comparison.cells)
    progress = _CellProgress(len(comparison.cells), done, on_cell)

    def task(cell: Cell) -> CellTask:
        options = with_budget(cell, [*comparison.cells, *earlier], results)
        base = base_of(comparison.run, cell.method, common.folder)
        return CellTask(cell.key, cell.label, options, checkpoints[base], common)

    children = Children()
    with threads_for(children, comparison.workers) as pool:
        for cells in budgeted_last(comparison.cells):
            tasks = {cell: task(cell) for cell in cells if cell.key not in results}
            results |= _worked(tasks, partial(in_process, children), progress, pool)
    return results


def _known_results(
    comparison: Comparison, earlier: Sequence[Cell], folder: Path
) -> dict[str, CellResult]:
    """Results of cells that cannot be tried, or were finished before with the same budget."""
    results: dict[str, CellResult] = {k: {"failure": why} for k, why in comparison.refusals.items()}
    results |= {cell.key: read_result(folder, cell) or {} for cell in earlier}
    for cells in budgeted_last(comparison.cells):
        for cell in cells:
            result = read_result(folder, cell)
            options = with_budget(cell, [*comparison.cells, *earlier], results)
            if result and result["method"] == options.method:
                results[cell.key] = result
    return results


def _worked(
    tasks: Mapping[Cell, CellTask],
    work: Callable[[CellTask, OnStage], CellResult],
    progress: _CellProgress,
    pool: ThreadPoolExecutor,
) -> dict[str, CellResult]:
    """Results of cells that are worked on at the same time, by key."""
    waiting: dict[Future[CellResult], Cell] = {
        pool.submit(work, task, partial(progress.at_work, cell)): cell
        for cell, task in tasks.items()
    }
    results = {}
    for future in as_completed(waiting):
        results[waiting[future].key] = future.result()
        progress.finished(waiting[future])
    return results


class _CellProgress:
    """One line of progress over all cells."""

    def __init__(self, cells: int, done: int, on_cell: OnCell) -> None:
        self._cells, self._done, self._on_cell = cells, done, on_cell
        self._now: dict[str, str] = {}
        self._lock = threading.Lock()
        on_cell(done, cells, "")

    def at_work(self, cell: Cell, stage: str, done: int, of: int) -> None:
        with self._lock:
            self._now[cell.key] = f"{cell.label} {stage} {done}/{of}"
            self._report()

    def finished(self, cell: Cell) -> None:
        with self._lock:
            self._now.pop(cell.key, None)
            self._done += 1
            self._report()

    def _report(self) -> None:
        self._on_cell(self._done, self._cells, ", ".join(self._now.values()))
