"""Stage 3: remaining clients refit their personal parts to the corrected shared tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pfedul.aggregation.mean import StreamingMean
from pfedul.base.tensors import Tensors
from pfedul.personalization.recalibration import shared_statistics
from pfedul.protocol import MEASURING, MEASURING_CPU, Check, OnStage, Reply, Task
from pfedul.run.run import Run
from pfedul.server.checks import check_personal
from pfedul.store.requests import Request, not_recalibrated, read_requests, recalibration_rows
from pfedul.unlearn.options import ForgetOptions, options_of
from pfedul.unlearn.outcome import EVALUATION
from pfedul.unlearn.stage import Stages

RECALIBRATION = "recalibration"


@dataclass
class Recalibrated:
    """The result: shared tensors, accuracies of the clients that did, and who failed."""

    shared: Tensors
    accuracies: dict[str, float] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def recalibrate(
    stages: Stages,
    options: ForgetOptions,
    clients: Sequence[str],
    corrected: Tensors,
    request: int,
    stale: bool,
) -> Recalibrated:
    """One broadcast, then local work; new personal parts are staged. Nothing, if not asked for.

    Shared normalisation statistics that the removal made stale come first, as the mean of what
    the clients estimate again: personal parts must be fitted to what they will be used with.
    """
    run, result, how = stages.run, Recalibrated(corrected), options.recalibration()
    if how is None:
        return result
    if stale and options.resets_statistics:
        result.shared = _with_statistics(stages, clients, corrected, request)
    task = Task("recalibrate", request, recalibration=how, measured=True, seed=options.seed)
    measuring = Measuring()
    replies = stages.ask(
        RECALIBRATION,
        task,
        clients,
        result.shared,
        _check(run),
        on_reply=measuring.add,
        on_refusal=lambda refusal: result.missing.append(refusal.client),
    )
    for reply in replies:
        run.personal_place.stage(reply)
        if "accuracy" in reply.metrics:
            result.accuracies[reply.client] = reply.metrics["accuracy"]
    stages.costs.rebook(RECALIBRATION, EVALUATION, measuring.share, measuring.cpu_seconds)
    return result


def _with_statistics(
    stages: Stages, clients: Sequence[str], corrected: Tensors, request: int
) -> Tensors:
    """The shared tensors with each cluster's mean of normalisation statistics, if there are any."""
    run, task = stages.run, Task("statistics", request)
    names = shared_statistics(run.bench.build_model(), run.bench.split)
    rules = replace(run.rules(), personal={}, held=False)
    like = {name: rules.shared[name] for name in names}

    def check(reply: Reply, client: str) -> str | None:
        return check_personal(reply, rules, client, like)

    for cluster, group in run.clusters.groups(clients if names else ()).items():
        view, mean = run.clusters.view(corrected, cluster), StreamingMean(like)
        for reply in stages.ask(RECALIBRATION, task, group, view, check):
            mean.add(reply.shared, reply.samples)
        if mean.weight:
            corrected = run.clusters.put(corrected, cluster, mean.result())
    return corrected


def _check(run: Run) -> Check:
    rules = run.rules()
    return lambda reply, client: check_personal(reply, rules, client, {})


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
    task = Task("recalibrate", request.number, recalibration=how, seed=options.seed)
    done = []
    for reply in stages.ask(RECALIBRATION, task, waiting, run.shared, _check(run)):
        run.personal_place.stage(reply)
        done.append(reply.client)
    run.store.keep(recalibration_rows(request, done, ()))
    run.store.commit()
    return done
