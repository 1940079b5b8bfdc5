"""Compare methods: oracles first, then all cells in parallel, then one document.

Cells are done in processes of their own, one thread each. What is finished is kept:
interrupted and asked again, only the other cells are worked on, and those go on from
their last noted step. A method that fails is a row that says so.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pfedul.audit.examination import Case, Examiner
from pfedul.audit.preparing import (
    Retrained,
    check_ready,
    exam_of,
    trained_oracles,
    untouched_state,
)
from pfedul.audit.questioning import ask_all, surfaces_of
from pfedul.audit.retraining import oracle_recipes
from pfedul.audit.threads import one_core
from pfedul.compare.bases import Base, base_for, needs_own_base
from pfedul.compare.budget import with_budget
from pfedul.compare.cells import Cell
from pfedul.compare.document import document
from pfedul.compare.order import Order, Result
from pfedul.compare.places import folder_of, read_result
from pfedul.engine import available_cores
from pfedul.engine.processes import pickle_bench, worker_environment
from pfedul.errors import PfedulError
from pfedul.unlearn.removal import OnStage, check_method

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
    children: set[subprocess.Popen[bytes]] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self) -> None:
        """Refuse what cannot be compared, before anything is trained."""
        check_ready(self.federation, self.targets, "methods are compared")
        if self.oracles < 2:
            raise PfedulError("A comparison needs at least 2 oracles: their spread is its measure.")

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


def compare(asked: Comparing, on_stage: OnStage, on_cell: OnCell) -> tuple[Path, dict[str, Any]]:
    """Do all of it; returns the folder of the comparison and its document."""
    asked.check()
    federation = asked.federation
    recipes = oracle_recipes(federation, asked.targets, asked.oracles)
    oracles = trained_oracles(federation, asked.targets, recipes, on_stage)
    folder = folder_of(federation, asked.targets, asked.oracles)
    order, examiner = _prepared(asked, folder, oracles, on_stage)
    bases = _own_bases(asked, folder, on_stage)
    results = _worked(asked, order, bases, on_cell)
    return folder, document(asked, folder, oracles, examiner, results)


def _prepared(
    asked: Comparing, folder: Path, oracles: Sequence[Retrained], on_stage: OnStage
) -> tuple[Order, Examiner]:
    """What all cells have in common: the samples, and the answers of what they are judged by."""
    federation, bench = asked.federation, asked.federation.bench
    untouched = untouched_state(federation, asked.targets)
    states = {oracle.recipe.name: oracle.state for oracle in oracles} | {"untouched": untouched}
    exam = exam_of(federation, asked.targets)
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
                federation, asked.targets, folder, method.layout, on_stage
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
    asked: Comparing, shell: Order, bases: Mapping[str, Base], on_cell: OnCell
) -> dict[str, Result]:
    """The results of all cells, by key; those that were there before are not done again."""
    refused = asked.refusals
    found: dict[str, Result] = {key: {"failure": reason} for key, reason in refused.items()}
    first = [cell for cell in asked.cells if not cell.method.budgeted]
    later = [cell for cell in asked.cells if cell.method.budgeted]
    for cell in [*first, *later]:  # in this order: budgets are known when the first are
        known = read_result(shell.folder, cell)
        if known and known["method"] == with_budget(cell, asked.cells, found).method:
            found[cell.key] = known
    board = _Board(len(asked.cells), len(found), on_cell)
    with _pool(asked) as pool:
        _work_on(asked, shell, first, found, board, pool, bases)
        _work_on(asked, shell, later, found, board, pool, bases)
    return found


def _work_on(
    asked: Comparing,
    shell: Order,
    cells: Sequence[Cell],
    found: dict[str, Result],
    board: _Board,
    pool: ThreadPoolExecutor,
    bases: Mapping[str, Base],
) -> None:
    todo = [cell for cell in cells if cell.key not in found]
    waiting: dict[Future[Result], Cell] = {}
    for cell in todo:
        options = with_budget(cell, asked.cells, found)
        order = replace(shell, key=cell.key, options=options, **_branching(bases, cell))
        waiting[pool.submit(_in_process, asked, order, cell, board)] = cell
    for future in as_completed(waiting):
        found[waiting[future].key] = future.result()
        board.finished(waiting[future])


def _in_process(asked: Comparing, order: Order, cell: Cell, board: _Board) -> Result:
    """A cell in a process of its own; whatever ends it is a result."""
    with tempfile.TemporaryFile() as log, _child(asked, log) as child:
        _send(child, order)
        result = _listened(child, lambda words: board.at_work(cell, words))
        code = child.wait()
        log.seek(0)
        return result if result is not None else {"failure": _why(code, log.read())}


@contextmanager
def _child(asked: Comparing, log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits for its order, known to `asked` while it lives."""
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "pfedul.compare.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env=worker_environment(),
    )
    assert child.stdin is not None
    with asked.lock:
        asked.children.add(child)
    try:
        yield child
    finally:
        with asked.lock:
            asked.children.discard(child)
        with suppress(OSError):
            child.stdin.close()


def _listened(
    child: subprocess.Popen[bytes], told: Callable[[dict[str, Any]], None]
) -> Result | None:
    """What a process says last; `told` of what it says on the way."""
    assert child.stdout is not None
    result: Result | None = None
    for text in child.stdout:
        try:
            words = json.loads(text)
        except ValueError:  # half a line of a process that was killed
            continue
        if "result" in words:
            result = words["result"]
        else:
            told(words)
    return result


def _send(child: subprocess.Popen[bytes], order: Order) -> None:
    """The pipe stays open: its end tells the process that we are gone."""
    assert child.stdin is not None
    data = pickle.dumps(order)
    with suppress(OSError):  # it has died; its exit code says so
        child.stdin.write(len(data).to_bytes(8, "big") + data)
        child.stdin.flush()


def _why(code: int, errors: bytes) -> str:
    lines = errors.decode(errors="replace").strip().splitlines()
    last = f": {lines[-1]}" if lines else ""
    return f"The process of this cell ended with code {code}{last}."


@contextmanager
def _pool(asked: Comparing) -> Iterator[ThreadPoolExecutor]:
    """Threads that wait for the processes of cells.

    Interrupted, no process outlives us and none is begun; each has noted how far it was.
    """
    pool = ThreadPoolExecutor(asked.workers or available_cores())
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        with asked.lock:
            for child in asked.children:
                child.kill()
        raise
    finally:
        pool.shutdown()


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
