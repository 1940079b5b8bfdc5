"""A rehearsal: the removal on a sealed copy, audited in full before the real one.

Evidence needs what forgetting erases: the target's samples, its personal part and the
tensors before. So the audit comes first. Oracles are trained, the target is forgotten in
the copy, everything is measured, figures and hashes are kept and the copy is erased.
Forgetting is deterministic: the real removal then ends with the same hashes, and the
evidence holds for those very tensors.

Read on: models.py (the federations), ask/ (what they answer), judge/ (the verdict),
evidence/ (the document).
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pfedul.audit.ask.answers import Answers, ask_all, surfaces_of
from pfedul.audit.ask.samples import AuditSamples
from pfedul.audit.evidence.document import (
    WITHOUT_ORACLES,
    circumstances,
    client_figures,
    examined,
    removal_part,
    surfaces_part,
)
from pfedul.audit.evidence.relearning import relearn_time
from pfedul.audit.instant import Witness, check_judgeable
from pfedul.audit.judge.case import Case, Examiner
from pfedul.audit.levels import Level
from pfedul.audit.models import (
    Retrained,
    check_ready,
    forget_in_copy,
    one_more_round,
    recalibrated_only,
    samples_of,
    trained_oracles,
    unlearned_twins,
    untouched_state,
)
from pfedul.audit.state import State
from pfedul.base.options import option_name
from pfedul.protocol import OnStage
from pfedul.run.retrained import Recipe, oracle_recipes, replies_left, twin_recipes
from pfedul.run.run import Run
from pfedul.store.audits import REHEARSAL, Audit, write_audit
from pfedul.store.copies import COPY, clear_rehearsal, copies_erased
from pfedul.store.tables import spent_on_rounds
from pfedul.unlearn.checks import check_away, check_method
from pfedul.unlearn.inspection import known_scores
from pfedul.unlearn.options import ForgetOptions
from pfedul.unlearn.outcome import Outcome


@dataclass(frozen=True)
class Price:
    """What an audit still has to train, and about how much CPU time that will take."""

    oracles: int
    twins: int
    cached: int
    cpu_seconds: float


@dataclass(frozen=True)
class Rehearsal:
    """A rehearsal to do: who is forgotten, how, and how much the audit may spend."""

    run: Run
    targets: tuple[str, ...]
    options: ForgetOptions
    away: tuple[str, ...]
    level: Level

    def __post_init__(self) -> None:
        """A client that is named twice is one client."""
        object.__setattr__(self, "targets", tuple(dict.fromkeys(self.targets)))
        object.__setattr__(self, "away", tuple(dict.fromkeys(self.away)))

    @property
    def oracles(self) -> list[Recipe]:
        return oracle_recipes(self.run, self.targets, self.level.oracles)

    @property
    def twins(self) -> list[Recipe]:
        return twin_recipes(self.run, self.level.unlearned - 1)

    def check(self) -> None:
        """Refuse what cannot be rehearsed, in one sentence, before anything is trained."""
        check_ready(self.run, self.targets, "another removal is rehearsed")
        check_away(self.run, self.targets, self.away)
        check_method(self.run, self.targets, self.options, self.away)
        if not self.level.oracles:
            check_judgeable(self.run, self.targets)

    def price(self) -> Price:
        return price(self.run, self.oracles, self.twins)

    def command(self) -> str:
        """On the command line, without who is away: that is stored with their figures."""
        clients = [f"--client {target}" for target in self.targets]
        words = " ".join([*clients, *option_words(self.options), level_words(self.level)])
        return f"pfedul rehearse {shown_path(self.run.store.path)} {words}"


def option_words(options: ForgetOptions) -> list[str]:
    """Options of the removal on the command line, without those that are as usual."""
    words, usual = [], ForgetOptions()
    for spec in fields(options):
        value = getattr(options, spec.name)
        if value != getattr(usual, spec.name):
            name = option_name(spec.name)
            words.append(name if value is True else f"{name} {value}")
    return words


def level_words(level: Level) -> str:
    """Arguments of the audit on the command line."""
    oracles = f" --oracles {level.oracles}" if level.oracles else ""
    return f"--level {level.name}{oracles}"


def shown_path(path: Path) -> str:
    """Relative to the working folder if it is below it, else the name alone."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here)) if path.is_relative_to(here) else path.name)


def price(run: Run, oracles: Sequence[Recipe], twins: Sequence[Recipe] = ()) -> Price:
    """From what the run's own rounds took."""
    spent = spent_on_rounds(run.store.ledger)
    missing, missing_twins = (
        sum(1 for recipe in kind if replies_left(run, [recipe])) for kind in (oracles, twins)
    )
    todo = replies_left(run, [*oracles, *twins])
    cached = len(oracles) + len(twins) - missing - missing_twins
    return Price(missing, missing_twins, cached, todo * spent.cpu_seconds / max(1, spent.replies))


def rehearse(rehearsal: Rehearsal, on_stage: OnStage | None = None) -> Audit:
    """Do all of it; what was measured is written into the ledger of the run.

    If it is interrupted, what was trained is kept, and the next call resumes from there.
    """
    started = time.process_time()
    rehearsal.check()
    tell = on_stage or (lambda _stage, _done, _of: None)
    run, targets = rehearsal.run, rehearsal.targets
    removal = rehearsal.options, rehearsal.away
    if not rehearsal.level.oracles:
        return _instant(rehearsal, started, tell)
    oracles = trained_oracles(run, targets, rehearsal.oracles, tell)
    with copies_erased(run.store.path):
        twins = unlearned_twins(run, rehearsal.twins, targets, *removal, tell)
        forgotten, outcome = forget_in_copy(run, COPY, targets, *removal, run=run, on_stage=tell)
    states = _states(rehearsal, forgotten, oracles, twins)
    evidence, clients = _measured(rehearsal, states, outcome, oracles, twins, tell)
    evidence["cost"]["rehearsal_cpu_seconds"] = spent_since(started, run, *oracles, *twins)
    clear_rehearsal(run.store.path)
    return write_audit(run.store.ledger, evidence, clients)


def _instant(rehearsal: Rehearsal, started: float, tell: OnStage) -> Audit:
    """The removal in a sealed copy, with the evidence that every removal gathers itself."""
    run, targets = rehearsal.run, rehearsal.targets
    removal = rehearsal.options, rehearsal.away
    with copies_erased(run.store.path):
        _, outcome = forget_in_copy(
            run, COPY, targets, *removal, run=run, on_stage=tell, examine=Witness
        )
    assert outcome.audit is not None
    evidence = {
        **circumstances(run, REHEARSAL, rehearsal.command(), rehearsal.level.name),
        **removal_part(run, outcome, ()),
        "hashes": _hashes(outcome),
        "surfaces": surfaces_part(run.bench),
        **outcome.audit,
        **WITHOUT_ORACLES,
    }
    evidence["cost"]["rehearsal_cpu_seconds"] = spent_since(started, run)
    clear_rehearsal(run.store.path)
    remaining = [client for client in run.clients if client not in targets]
    clients = client_figures(remaining, outcome, (), None, known_scores(run))
    return write_audit(run.store.ledger, evidence, _with_away(rehearsal, clients))


def spent_since(started: float, run: Run, *trained: Retrained) -> float:
    """CPU seconds since then: of this process, and of training in other processes."""
    elsewhere = 0.0 if run.engine.in_process else sum(one.trained_now for one in trained)
    return time.process_time() - started + elsewhere


def _measured(
    rehearsal: Rehearsal,
    states: Mapping[str, State],
    outcome: Outcome,
    oracles: Sequence[Retrained],
    twins: Sequence[Retrained],
    tell: OnStage,
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The evidence document, and the figures of single clients."""
    run, bench = rehearsal.run, rehearsal.run.bench
    samples = samples_of(run, rehearsal.targets)
    answers = ask_all(bench, samples, states, surfaces_of(bench), tell)
    examiner = Examiner(_case(rehearsal, samples, answers, len(oracles)))
    unlearned = [answers["candidate"], *(answers[twin.recipe.name] for twin in twins)]
    starts = {name: states[name].shared for name in examiner.case.models}
    evidence = {
        **circumstances(run, REHEARSAL, rehearsal.command(), rehearsal.level.name),
        **removal_part(run, outcome, oracles, twins),
        "hashes": _hashes(outcome),
        **examined(examiner, unlearned, bench, gone={}, on_stage=tell),
        "relearn": relearn_time(bench, samples, starts, answers["untouched"], tell),
    }
    remaining, scores = list(states["candidate"].personal), known_scores(run)
    clients = client_figures(remaining, outcome, oracles, examiner, scores)
    return evidence, _with_away(rehearsal, clients)


def _hashes(outcome: Outcome) -> dict[str, str]:
    return {
        "shared_before": outcome.shared_sha256_before,
        "shared_after": outcome.shared_sha256_after,
        "state_after": outcome.state_sha256_after,
    }


def _with_away(
    rehearsal: Rehearsal, clients: Mapping[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    return {name: {**row, "away": name in rehearsal.away} for name, row in clients.items()}


def _states(
    rehearsal: Rehearsal,
    forgotten: State,
    oracles: Sequence[Retrained],
    twins: Sequence[Retrained],
) -> dict[str, State]:
    """Every federation that is asked, by name."""
    run, targets = rehearsal.run, rehearsal.targets
    untouched = untouched_state(run, targets)
    return {
        "candidate": forgotten,
        "untouched": untouched,
        **{oracle.recipe.name: oracle.state for oracle in oracles},
        "one more round": one_more_round(run, targets),
        "no-op": recalibrated_only(run, untouched, rehearsal.options),
        **{twin.recipe.name: twin.state for twin in twins},
    }


def _case(
    rehearsal: Rehearsal, samples: AuditSamples, answers: Mapping[str, Answers], oracles: int
) -> Case:
    return Case(
        samples,
        surfaces_of(rehearsal.run.bench),
        answers["candidate"],
        [answers[f"oracle {number}"] for number in range(1, oracles + 1)],
        answers["untouched"],
        {name: answers[name] for name in ("one more round", "no-op")},
        target=" and ".join(rehearsal.targets),
    )
