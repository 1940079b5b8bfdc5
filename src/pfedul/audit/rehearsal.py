"""A rehearsal: the removal on a sealed copy, audited in full before the real one.

Evidence needs what forgetting erases: the target's samples, its personal part, the
tensors before. So the audit comes before the act. The copy is forgotten in, oracles
are trained, everything is measured, figures and hashes are kept and the copy is erased.
Forgetting is deterministic: the real removal then ends with the same hashes, and the
evidence holds for those very tensors.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pfedul.audit.ask.answers import Answers, ask_all, surfaces_of
from pfedul.audit.ask.samples import Exam
from pfedul.audit.evidence.document import circumstances, client_figures, examined, removal_part
from pfedul.audit.evidence.relearning import old_accuracy, relearn_time
from pfedul.audit.judge.case import Case, Examiner
from pfedul.audit.levels import Level
from pfedul.audit.models import (
    Removed,
    Retrained,
    check_ready,
    exam_of,
    forget_in_copy,
    one_more_round,
    recalibrated_only,
    trained_oracles,
    unlearned_twins,
    untouched_state,
)
from pfedul.audit.state import State
from pfedul.base.options import option_name
from pfedul.protocol import OnStage
from pfedul.run.retrained import Recipe, oracle_recipes, replies_left, twin_recipes
from pfedul.store import audits as ledger_of
from pfedul.store.copies import COPY, clear_rehearsal, copies_erased
from pfedul.unlearn.checks import check_away, check_method
from pfedul.unlearn.inspection import known_scores
from pfedul.unlearn.options import ForgetOptions

if TYPE_CHECKING:
    from pfedul.federation import Federation


@dataclass(frozen=True)
class Price:
    """What an audit has yet to train, and about how much CPU time that will take."""

    oracles: int
    twins: int
    cached: int
    cpu_seconds: float


@dataclass(frozen=True)
class Rehearsal:
    """A rehearsal that was asked for, before anything is done for it."""

    federation: Federation
    targets: tuple[str, ...]
    options: ForgetOptions
    away: tuple[str, ...]
    level: Level

    def __post_init__(self) -> None:
        """A client who is named twice is one client."""
        object.__setattr__(self, "targets", tuple(dict.fromkeys(self.targets)))
        object.__setattr__(self, "away", tuple(dict.fromkeys(self.away)))

    @property
    def oracles(self) -> list[Recipe]:
        return oracle_recipes(self.federation, self.targets, self.level.oracles)

    @property
    def twins(self) -> list[Recipe]:
        return twin_recipes(self.federation, self.level.unlearned - 1)

    def check(self) -> None:
        """Refuse what cannot be rehearsed, in one sentence, before anything is trained."""
        check_ready(self.federation, self.targets, "another removal is rehearsed")
        check_away(self.federation, self.targets, self.away)
        check_method(self.federation, self.targets, self.options, self.away)

    def price(self) -> Price:
        return price(self.federation, self.oracles, self.twins)

    @property
    def removal_words(self) -> str:
        """What a shell is told of the removal: who, and with which options."""
        return " ".join([self._without_away, *(f"--away {client}" for client in self.away)])

    @property
    def _without_away(self) -> str:
        words = [f"--client {target}" for target in self.targets]
        return " ".join([*words, *_option_words(self.options)])

    def command(self) -> str:
        """How to do the same again in a shell, but for who is away: that is with their figures."""
        run = shown_path(self.federation.store.path)
        return f"pfedul rehearse {run} {self._without_away} {level_words(self.level)}"


def _option_words(options: ForgetOptions) -> list[str]:
    words, usual = [], ForgetOptions()
    for spec in fields(options):
        value = getattr(options, spec.name)
        if value != getattr(usual, spec.name):
            name = option_name(spec.name)
            words.append(name if value is True else f"{name} {value}")
    return words


def level_words(level: Level) -> str:
    """What a shell is told of the audit."""
    return f"--level {level.name} --oracles {level.oracles}"


def shown_path(path: Path) -> str:
    """As seen from the working folder where that is above it, else the name alone."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here)) if path.is_relative_to(here) else path.name)


def price(federation: Federation, oracles: Sequence[Recipe], twins: Sequence[Recipe] = ()) -> Price:
    """From what the run's own rounds took."""
    ledger = federation.store.ledger
    spent = ledger.value("SELECT SUM(cpu_seconds) FROM rounds") or 0.0
    replies = ledger.value("SELECT SUM(replies) FROM rounds") or 1
    missing = [
        sum(1 for recipe in kind if replies_left(federation, [recipe])) for kind in (oracles, twins)
    ]
    todo = replies_left(federation, [*oracles, *twins])
    cached = len(oracles) + len(twins) - sum(missing)
    return Price(missing[0], missing[1], cached, todo * spent / replies)


def rehearse(asked: Rehearsal, on_stage: OnStage | None = None) -> ledger_of.Audit:
    """Do all of it; what was measured is written into the ledger of the run.

    Interrupted, it keeps what was trained; asked again, it goes on from there.
    """
    started = time.process_time()
    asked.check()
    tell = on_stage or (lambda _stage, _done, _of: None)
    federation = asked.federation
    oracles = trained_oracles(federation, asked.targets, asked.oracles, tell)
    with copies_erased(federation.store.path):
        twins = unlearned_twins(
            *(federation, asked.twins, asked.targets, asked.options, asked.away, tell)
        )
        removed = forget_in_copy(
            *(federation, COPY, asked.targets, asked.options, asked.away, federation, tell)
        )
    evidence, clients = _measured(asked, removed, oracles, twins, tell)
    evidence["cost"]["rehearsal_cpu_seconds"] = spent_since(started, federation, *oracles, *twins)
    clear_rehearsal(federation.store.path)
    return ledger_of.write_audit(federation.store.ledger, evidence, clients)


def spent_since(started: float, federation: Federation, *trained: Retrained) -> float:
    """CPU seconds since then: of this process, and of training where that is in others."""
    elsewhere = 0.0 if federation.engine.in_process else sum(one.trained_now for one in trained)
    return time.process_time() - started + elsewhere


def _measured(
    asked: Rehearsal,
    removed: Removed,
    oracles: Sequence[Retrained],
    twins: Sequence[Retrained],
    tell: OnStage,
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    federation, bench = asked.federation, asked.federation.bench
    states = _states(asked, removed, oracles, twins)
    exam = exam_of(federation, asked.targets)
    answers = ask_all(bench, exam, states, surfaces_of(bench), tell)
    case = _case(asked, exam, answers, len(oracles))
    examiner = Examiner(case)
    tell("attacks", 0, 1)
    unlearned = [answers["candidate"], *(answers[f"twin {n + 1}"] for n in range(len(twins)))]
    found = examined(examiner, unlearned, bench, {})
    tell("attacks", 1, 1)
    shown = ("candidate", "untouched", *(f"oracle {n + 1}" for n in range(len(oracles))))
    starts = {name: states[name].shared for name in shown}
    wanted = old_accuracy(exam, answers["untouched"])
    outcome = removed.outcome
    evidence = {
        **circumstances(federation, ledger_of.REHEARSAL, asked.command(), asked.level.name),
        **removal_part(federation, outcome, oracles, twins),
        "hashes": {
            "shared_before": outcome.shared_sha256_before,
            "shared_after": outcome.shared_sha256_after,
            "state_after": outcome.state_sha256_after,
        },
        **found,
        "relearn": relearn_time(bench, exam, starts, wanted, tell),
    }
    remaining, scores = list(removed.state.personal), known_scores(federation)
    clients = client_figures(remaining, outcome, oracles, examiner, scores)
    return evidence, {name: {**row, "away": name in asked.away} for name, row in clients.items()}


def _states(
    asked: Rehearsal, removed: Removed, oracles: Sequence[Retrained], twins: Sequence[Retrained]
) -> dict[str, State]:
    """Every federation that is asked, by name."""
    federation = asked.federation
    untouched = untouched_state(federation, asked.targets)
    return {
        "candidate": removed.state,
        "untouched": untouched,
        **{oracle.recipe.name: oracle.state for oracle in oracles},
        "one more round": one_more_round(federation, asked.targets),
        "no-op": recalibrated_only(federation, untouched, asked.options),
        **{twin.recipe.name: twin.state for twin in twins},
    }


def _case(asked: Rehearsal, exam: Exam, answers: Mapping[str, Answers], oracles: int) -> Case:
    return Case(
        exam,
        surfaces_of(asked.federation.bench),
        answers["candidate"],
        [answers[f"oracle {number}"] for number in range(1, oracles + 1)],
        answers["untouched"],
        {name: answers[name] for name in ("one more round", "no-op")},
        target=" and ".join(asked.targets),
    )
