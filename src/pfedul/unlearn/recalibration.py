"""Stage 3: remaining clients refit their personal parts to the corrected shared tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from pfedul.base.tensors import Tensors
from pfedul.personalization import Recalibration
from pfedul.personalization.recalibration import shared_statistics
from pfedul.protocol import (
    MEASURING,
    MEASURING_CPU,
    Check,
    OnStage,
    Reply,
    Task,
)
from pfedul.run.run import Run
from pfedul.server.checks import check_personal
from pfedul.server.mean import StreamingMean
from pfedul.store.requests import Request, not_recalibrated, read_requests, recalibration_rows
from pfedul.unlearn.options import options_of
from pfedul.unlearn.outcome import EVALUATION
from pfedul.unlearn.stage import Stages

RECALIBRATION = "recalibration"


@dataclass
class Recalibrated:
    """The result: shared tensors, accuracies where clients sent them, and who failed."""

    shared: Tensors
    accuracies: dict[str, float] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def recalibrate(
    stages: Stages,
    how: Recalibration,
    clients: Sequence[str],
    corrected: Tensors,
    *,
    request: int,
    seed: int | None,
) -> Recalibrated:
    """One broadcast, then local work; new personal parts are staged.

    Shared tensors stay unchanged, except for normalisation statistics that the correction made
    stale: these become the mean of the clients' new estimates. Accuracies then have to be
    measured after that mean is known.
    """
    run, result = stages.run, Recalibrated(corrected)
    wanted = _statistics(run, how)
    task = Task("recalibrate", request, recalibration=how, measured=True, seed=seed)
    measuring, statistics = Measuring(), None
    replies = stages.ask(
        RECALIBRATION,
        task,
        clients,
        corrected,
        _check(run, wanted),
        on_reply=measuring.add,
        on_refusal=lambda refusal: result.missing.append(refusal.client),
    )
    for reply in replies:
        run.personal_place.stage(reply)
        if reply.shared:
            statistics = statistics or StreamingMean(reply.shared)
            statistics.add(reply.shared, reply.samples)
        elif "accuracy" in reply.metrics:
            result.accuracies[reply.client] = reply.metrics["accuracy"]
    stages.costs.rebook(RECALIBRATION, EVALUATION, measuring.share, measuring.cpu_seconds)
    if statistics is not None:
        result.shared, result.accuracies = {**corrected, **statistics.result()}, {}
    return result


def _check(run: Run, statistics: Mapping[str, Tensor]) -> Check:
    rules = run.rules()
    return lambda reply, client: check_personal(reply, rules, client, statistics)


def _statistics(run: Run, how: Recalibration) -> Tensors:
    """The shared normalisation statistics that clients re-estimate, as they are now."""
    if not how.statistics:
        return {}
    names = shared_statistics(run.bench.build_model(), run.bench.split)
    return {name: run.shared[name] for name in names}


@dataclass
class Measuring:
    """Time that clients spent on evaluation within another task.

    A remote client may report any number, so it is capped at the time of its whole reply.
    """

    seconds: float = 0.0
    of_seconds: float = 0.0
    cpu_seconds: float = 0.0

    def add(self, reply: Reply) -> None:
        self.of_seconds += reply.seconds
        self.seconds += _part(reply, MEASURING, reply.seconds)
        self.cpu_seconds += _part(reply, MEASURING_CPU, reply.cpu_seconds)

    @property
    def share(self) -> float:
        return self.seconds / self.of_seconds if self.of_seconds else 0.0


def _part(reply: Reply, name: str, whole: float) -> float:
    reported = float(reply.metrics.get(name, 0.0))
    return min(reported, whole) if reported > 0 else 0.0


def recalibrate_missing(run: Run, on_stage: OnStage | None = None) -> list[str]:
    """Recalibrate clients that were away when a client was forgotten; returns who did."""
    ledger = run.store.ledger
    done: list[str] = []
    for request in read_requests(ledger):
        waiting = not_recalibrated(ledger, request)
        if waiting:
            done += _recalibrate_later(Stages(run, on_stage), request, waiting)
    return done


def _recalibrate_later(stages: Stages, request: Request, waiting: list[str]) -> list[str]:
    run, options = stages.run, options_of(request)
    how = options.recalibration()
    if how is None:
        return []
    # Shared statistics have already been averaged without these clients, so they send none.
    local = replace(how, statistics=False)
    task = Task("recalibrate", request.number, recalibration=local, seed=options.seed)
    done = []
    for reply in stages.ask(RECALIBRATION, task, waiting, run.shared, _check(run, {})):
        run.personal_place.stage(reply)
        done.append(reply.client)
    run.store.keep(recalibration_rows(request, done, ()))
    run.store.commit()
    return done
