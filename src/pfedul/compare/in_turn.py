"""Several removals one after another, told as one: costs are added up, one audit is of all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from pfedul.audit.instant import Witness
from pfedul.audit.state import State
from pfedul.compare.process import CellTask
from pfedul.protocol import OnStage, Workbench
from pfedul.run.run import Run
from pfedul.store.readonly import ReadOnlyStore
from pfedul.unlearn.outcome import Outcome, StageCost
from pfedul.unlearn.removal import forget


def forget_in_turn(branch: Run, task: CellTask, on_stage: OnStage) -> Outcome:
    """Forget the targets of each request; a request that was honoured before a kill stays so."""
    requests = task.common.requests
    return together([forget(branch, one, task.options, on_stage=on_stage) for one in requests])


def together(outcomes: Sequence[Outcome]) -> Outcome:
    """From before the first removal to after the last, over the clients who stay through all."""
    first, last = outcomes[0], outcomes[-1]
    return replace(
        last,
        targets=tuple(target for one in outcomes for target in one.targets),
        asked_at=first.asked_at,
        erased={kind: sum(one.erased[kind] for one in outcomes) for kind in first.erased},
        before={client: first.before[client] for client in last.after if client in first.before},
        stages=_added(outcomes),
        rounds=sum(one.rounds for one in outcomes),
        bytes_broadcast=sum(one.bytes_broadcast for one in outcomes),
        bytes_uploaded=sum(one.bytes_uploaded for one in outcomes),
        shared_sha256_before=first.shared_sha256_before,
        notes=tuple(dict.fromkeys(note for one in outcomes for note in one.notes)),
    )


def _added(outcomes: Sequence[Outcome]) -> dict[str, StageCost]:
    stages: dict[str, StageCost] = {}
    for one in outcomes:
        for name, cost in one.stages.items():
            stages[name] = stages.get(name, StageCost()) + cost
    return stages


def joint_evidence(task: CellTask, bench: Workbench, state: State) -> dict[str, Any]:
    """What is seen of all targets together; the run itself, which still has them, is looked at."""
    settings = replace(task.checkpoint.settings, engine="inline", workers=1)
    with closing(Run(ReadOnlyStore.open(task.checkpoint.run), settings, bench)) as run:
        return Witness(run, task.common.targets).of(state)
