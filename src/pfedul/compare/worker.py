"""The process of a cell: forgets in a branch of the run, audits that, prints what it found.

Started as `python -m pfedul.compare.worker`; the order comes on stdin, progress and the
result go out as lines of JSON. Killed, it leaves a branch in which the same order goes on.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from pfedul.audit.ask.answers import ask, surfaces_of
from pfedul.audit.evidence.document import test_row, untested_surfaces
from pfedul.audit.judge.case import Case, Examiner
from pfedul.audit.state import state_of
from pfedul.base.threads import one_core
from pfedul.compare.folder import BRANCH, FORMAT, RESULT_FILE, write_json
from pfedul.compare.order import Order, Result
from pfedul.engine.processes import unpickle_bench
from pfedul.errors import MethodFailed, PfedulError
from pfedul.federation import Federation
from pfedul.protocol import OnStage, Workbench
from pfedul.store import requests
from pfedul.store.copies import copy_run
from pfedul.store.ledger import Ledger
from pfedul.store.paths import LEDGER_FILE
from pfedul.store.store import Store
from pfedul.unlearn.outcome import Outcome, read_outcome
from pfedul.unlearn.removal import forget


def carry_out(order: Order, tell: OnStage) -> Result:
    """Forget, ask, judge; what was found is written beside the branch.

    A failure of the method itself is a result: it would fail in the same way again.
    """
    try:
        found = _found(order, tell)
    except MethodFailed as error:
        found = {"failure": str(error)}
    except PfedulError as error:
        return {"failure": str(error)}
    result = {**_heading(order), **found}
    write_json(order.folder / order.key / RESULT_FILE, result)
    return result


def _heading(order: Order) -> Result:
    """What a later comparison needs to know this cell again."""
    return {
        "format": FORMAT,
        "label": order.label,
        "seed": order.options.seed,
        "method": order.options.method,
    }


def _found(order: Order, tell: OnStage) -> Result:
    bench = unpickle_bench(order.bench)
    with closing(_branch(order, bench)) as branch:
        outcome = _forgotten(branch, order, tell)
        state = state_of(branch, branch.clients, order.stale, order.clusters)
    tell("audit", 0, 1)
    surfaces = surfaces_of(bench)
    answers = ask(bench, order.exam, state, surfaces)
    beside = order.oracles, order.untouched
    case = Case(order.exam, surfaces, answers, *beside, target=" and ".join(order.targets))
    examiner = Examiner(case)
    with one_core():
        verdict = examiner.judged(
            answers, held_out=order.held_out, untested=untested_surfaces(bench, {})
        )
        tests = [test_row(finding) for finding in examiner.findings(answers, case.oracles)]
    tell("audit", 1, 1)
    return {
        "failure": None,
        "outcome": outcome.as_json(),
        "verdict": verdict.as_json(),
        "tests": tests,
        "notes": [*order.notes, *outcome.notes],
    }


def _branch(order: Order, bench: Workbench) -> Federation:
    """The branch of this cell: as a killed process left it, or a new copy of the run."""
    place = order.folder / order.key / BRANCH
    if not (place / LEDGER_FILE).is_file() or _method_of(place) not in {None, order.options.method}:
        copy_run(order.run, place)
    settings = replace(order.settings, engine="inline", workers=1)
    return Federation(Store.open(place), settings, bench)


def _method_of(place: Path) -> str | None:
    """How the last request of a branch was to be done: a budget may have become another."""
    with closing(Ledger(place / LEDGER_FILE, read_only=True)) as ledger:
        asked = requests.read_requests(ledger)
    return str(asked[-1].options["method"]) if asked else None


def _forgotten(branch: Federation, order: Order, tell: OnStage) -> Outcome:
    done = requests.forgotten(branch.store.ledger)
    if all(target in done for target in order.targets):
        last = done[order.targets[0]]
        if last.status == requests.DONE:
            return read_outcome(branch.store.ledger, last)
    return forget(branch, order.targets, order.options, on_stage=tell)


def _end_with_parent() -> None:
    """End this process at once when the comparison's process is gone: nobody waits for it.

    Not by `sys.stdin`: its lock, held here, would abort the interpreter at its own end.
    """
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


def main() -> None:
    """Serve one order."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to handle
    torch.set_num_threads(1)
    size = int.from_bytes(sys.stdin.buffer.read(8), "big")
    order: Order = pickle.loads(sys.stdin.buffer.read(size))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # what a user's model or data print is no answer

        def say(**words: Any) -> None:
            answers.write(json.dumps(words) + "\n")
            answers.flush()

        result = carry_out(order, lambda stage, done, of: say(stage=stage, done=done, of=of))
        say(result=result)


if __name__ == "__main__":
    main()
