"""What was done for a request, and what it cost."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from pfedul.base.result import Result
from pfedul.base.text import share_words
from pfedul.evaluation import bootstrap_interval, cfi_of_ratios, pps_of_ratios, preservation
from pfedul.store.ledger import Ledger
from pfedul.store.requests import Request, accuracies, erased_at_client, not_recalibrated
from pfedul.store.soundness import content_of

EVALUATION, ERASURE, AUDIT = "evaluation", "erasure", "audit"
"""Stages that are not a part of a method: two measure, and erasure is the same for all methods."""


@dataclass
class StageCost:
    """Wall and CPU seconds of one stage, workers included."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def __add__(self, more: StageCost) -> StageCost:
        return StageCost(self.seconds + more.seconds, self.cpu_seconds + more.cpu_seconds)


@dataclass
class Costs:
    """The cost of each stage of a removal."""

    stages: dict[str, StageCost] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[StageCost]:
        """Measure a block as (a further part of) the stage `name`."""
        cost = self.stages.setdefault(name, StageCost())
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield cost
        finally:
            cost.seconds += time.perf_counter() - wall
            cost.cpu_seconds += time.process_time() - cpu

    def rebook(self, source: str, to: str, share: float, cpu_seconds: float) -> None:
        """Move cost from one stage to the one it was spent for.

        Wall time moves as a share, since workers run in parallel; CPU time moves as seconds.
        """
        giver = self.stages[source]
        moved = StageCost(share * giver.seconds, min(cpu_seconds, giver.cpu_seconds))
        giver.seconds -= moved.seconds
        giver.cpu_seconds -= moved.cpu_seconds
        self.stages[to] = self.stages.get(to, StageCost()) + moved


@dataclass(frozen=True, repr=False)
class Outcome(Result):
    """A request that was honoured.

    `before` and `after` are the remaining clients' accuracies with their personal
    models on their own test samples. `state_sha256_after` covers all shared and personal tensors
    after the removal (`Store.state_digest`). `rounds` counts global rounds: those of the method,
    and repair rounds if there were any. `erased_at_client` says, for targets that kept their
    personal tensors themselves, whether they confirmed the erasure. `audit` is what was measured
    of the forgetting itself (docs/json.md); None if that was left out. `retraining_cpu_seconds`
    estimates what retraining would have cost, by the rounds so far; older outcomes have none.
    `asked` is who asked for it (`by`), on what `ground`, and when it was `due`, as far as known.
    """

    request: int
    targets: tuple[str, ...]
    options: Mapping[str, Any]
    asked_at: str
    finished_at: str
    plan: Mapping[str, Any]
    erased: Mapping[str, int]
    before: Mapping[str, float]
    after: Mapping[str, float]
    stages: Mapping[str, StageCost]
    rounds: int
    bytes_broadcast: int
    shared_sha256_before: str
    shared_sha256_after: str
    not_recalibrated: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    erased_at_client: Mapping[str, str] = field(default_factory=dict)
    state_sha256_after: str = ""
    bytes_uploaded: int = 0
    audit: Mapping[str, Any] | None = None
    retraining_cpu_seconds: float | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str | None:
        """What was found of the forgetting itself; None if that was not measured."""
        return None if self.audit is None else str(self.audit["verdict"]["verdict"])

    @property
    def removed(self) -> Mapping[str, Any] | None:
        """The share of what could be seen that is gone: value and interval; None if not known."""
        return None if self.audit is None else self.audit["removed"]

    @property
    def pps(self) -> float | None:
        """What the remaining clients kept of their accuracy (Eq. 14); None if that is undefined."""
        kept = preservation(self.before, self.after) if self.before else None
        return kept.pps if kept is not None and kept.ratios else None

    def _facts(self) -> dict[str, Any]:
        cost = spent(self.stages)
        return {
            "request": self.request,
            "targets": list(self.targets),
            "verdict": self.verdict,
            "removed": share_words(self.removed),
            "pps": self.pps,
            "seconds": round(cost.seconds, 2),
            "rounds": self.rounds,
            "notes": len(self.notes),
        }

    def _sentences(self) -> list[str]:
        found = [] if self.audit is None else [self.audit["verdict"]["sentence"]]
        return [*found, *(f"Note: {note}." for note in self.notes)]

    def _rows(self) -> list[dict[str, Any]]:
        pairs = ((client, self.before[client], self.after[client]) for client in self.before)
        return [
            {"client": client, "before": before, "after": after, "change": after - before}
            for client, before, after in pairs
        ]

    def as_json(self) -> dict[str, Any]:
        """Plain data, with the personal metrics (Eq. 14 and 15) computed."""
        values = asdict(self)
        kept = preservation(self.before, self.after) if self.before else None
        ratios = [] if kept is None else list(kept.ratios.values())
        values["pps"], values["cfi"] = (kept.pps, kept.cfi) if kept and ratios else (None, None)
        values["pps_interval"] = bootstrap_interval(ratios, pps_of_ratios) if ratios else None
        values["cfi_interval"] = bootstrap_interval(ratios, cfi_of_ratios) if ratios else None
        values["undefined"] = [] if kept is None else list(kept.undefined)
        for key in ("targets", "not_recalibrated", "notes"):
            values[key] = list(values[key])
        return values


def read_outcome(ledger: Ledger, request: Request) -> Outcome:
    """The outcome from the ledger, with figures of those clients that are still in the run."""
    with content_of(ledger.path):
        return _outcome(ledger, request)


def _outcome(ledger: Ledger, request: Request) -> Outcome:
    assert request.outcome is not None
    names = {spec.name for spec in fields(Outcome)}
    values = {key: value for key, value in request.outcome.items() if key in names}
    values["targets"], values["notes"] = tuple(values["targets"]), tuple(values["notes"])
    values["stages"] = stages_of(values)
    values["before"], values["after"] = accuracies(ledger, request)
    values["not_recalibrated"] = tuple(not_recalibrated(ledger, request))
    values["erased_at_client"] = erased_at_client(ledger, request)
    return Outcome(**values)


def stages_of(outcome: Mapping[str, Any]) -> dict[str, StageCost]:
    """The stages of an outcome that is plain data."""
    return {name: StageCost(**cost) for name, cost in outcome["stages"].items()}


def spent(
    stages: Mapping[str, StageCost], leave_out: Collection[str] = (EVALUATION, AUDIT)
) -> StageCost:
    """The cost of a removal without what was measured.

    >>> spent({"plan": StageCost(1, 2), "evaluation": StageCost(3, 4)})
    StageCost(seconds=1.0, cpu_seconds=2.0)
    """
    return sum((cost for name, cost in stages.items() if name not in leave_out), StageCost())


def spent_by_method(stages: Mapping[str, StageCost]) -> StageCost:
    """The cost of the method itself, recalibration and repair included.

    That of pFedUL is the unit in which budgets of other methods are given.

    >>> spent_by_method({"plan": StageCost(1, 2), "erasure": StageCost(3, 4)})
    StageCost(seconds=1.0, cpu_seconds=2.0)
    """
    return spent(stages, (EVALUATION, AUDIT, ERASURE))
