"""The process of a cell: forgets in a branch of the run, audits that, sends the result.

Killed, it leaves a branch from which the same task resumes.
"""

from __future__ import annotations

import pickle
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pfedul.audit.ask.answers import Answers, ask
from pfedul.audit.evidence.document import test_row, untested_surfaces
from pfedul.audit.instant import Witness
from pfedul.audit.judge.case import Examiner
from pfedul.audit.state import state_of
from pfedul.base.threads import one_core
from pfedul.compare.cells import CellResult
from pfedul.compare.figures import mia_figures, preservation_intervals, preserved
from pfedul.compare.folder import BRANCH, FORMAT, RESULT_FILE, write_json
from pfedul.compare.in_turn import forget_in_turn, joint_evidence
from pfedul.compare.process import CellTask, Common
from pfedul.compare.shared_model import shared_accuracy
from pfedul.engine.child import as_child
from pfedul.engine.processes import unpickle_bench
from pfedul.errors import MethodFailed, PfedulError
from pfedul.protocol import OnStage, Workbench
from pfedul.run.run import Run
from pfedul.store import requests
from pfedul.store.copies import copy_run
from pfedul.store.ledger import Ledger
from pfedul.store.paths import LEDGER_FILE
from pfedul.store.store import Store
from pfedul.unlearn.outcome import Outcome
from pfedul.unlearn.removal import forget


def carry_out(task: CellTask, on_stage: OnStage) -> CellResult:
    """Forget, ask, judge; the result is written next to the branch.

    A failure of the method itself is a result: it would fail in the same way again.
    """
    try:
        result = _result(task, on_stage)
    except MethodFailed as error:
        result = {"failure": str(error)}
    except PfedulError as error:
        return {"failure": str(error)}
    result = {**_heading(task), **result}
    write_json(task.folder / RESULT_FILE, result)
    return result


def _heading(task: CellTask) -> CellResult:
    """What a later comparison needs to recognise this cell."""
    return {
        "format": FORMAT,
        "label": task.label,
        "requests": task.common.requests,
        "seed": task.options.seed,
        "method": task.options.method,
    }


def _result(task: CellTask, on_stage: OnStage) -> CellResult:
    common, checkpoint = task.common, task.checkpoint
    bench = unpickle_bench(common.bench)
    with closing(_branch(task, bench)) as branch:
        outcome = _outcome(branch, task, on_stage)
        state = state_of(branch, branch.clients, checkpoint.stale, checkpoint.clusters)
        after = shared_accuracy(branch, branch.clients)
    on_stage("audit", 0, 1)
    if len(common.requests) > 1:
        outcome = replace(outcome, audit=joint_evidence(task, bench, state))
    answers = ask(bench, common.case.samples, state, common.case.surfaces)
    with one_core():
        judgement = _judgement(common, bench, answers)
        figures = _figures(task, outcome, answers)
    on_stage("audit", 1, 1)
    return {
        "failure": None,
        "outcome": outcome.as_json(),
        "shared_accuracy_before": checkpoint.shared_accuracy,
        "shared_accuracy_after": after,
        **judgement,
        **figures,
        "notes": [*checkpoint.notes, *outcome.notes],
    }


def _judgement(common: Common, bench: Workbench, answers: Answers) -> CellResult:
    case = replace(common.case, candidate=answers)
    examiner, untested = Examiner(case), untested_surfaces(bench, {})
    verdict = examiner.judged(answers, held_out=common.held_out, untested=untested)
    tests = [test_row(finding) for finding in examiner.findings(answers, case.oracles)]
    return {"verdict": verdict.as_json(), "tests": tests}


def _figures(task: CellTask, outcome: Outcome, answers: Answers) -> CellResult:
    """MIA accuracy, PPS and CFI, with intervals where the untouched run is the one before."""
    case = task.common.case
    kept = preserved(outcome.before, outcome.after)
    before = None if task.checkpoint.notes else case.untouched
    intervals = preservation_intervals(case.samples, before, answers, kept)
    return {**mia_figures(case.surfaces, answers), **kept, **intervals}


def _branch(task: CellTask, bench: Workbench) -> Run:
    """The branch of this cell: as a killed process left it, or a new copy of the run."""
    place = task.folder / BRANCH
    if not (place / LEDGER_FILE).is_file() or _method_of(place) not in {None, task.options.method}:
        copy_run(task.checkpoint.run, place)
    settings = replace(task.checkpoint.settings, engine="inline", workers=1)
    return Run(Store.open_unremembered(place), settings, bench)


def _method_of(place: Path) -> str | None:
    """The method of a branch's last request, with its options: the budget may have changed."""
    with closing(Ledger(place / LEDGER_FILE, read_only=True)) as ledger:
        filed = requests.read_requests(ledger)
    return str(filed[-1].options["method"]) if filed else None


def _outcome(branch: Run, task: CellTask, on_stage: OnStage) -> Outcome:
    if len(task.common.requests) > 1:
        return forget_in_turn(branch, task, on_stage)
    return forget(branch, task.common.targets, task.options, on_stage=on_stage, examine=Witness)


def main() -> None:
    line, _ = as_child()
    task: CellTask = pickle.loads(line.recv_bytes())
    line.send(carry_out(task, lambda *stage: line.send(stage)))


if __name__ == "__main__":
    main()
