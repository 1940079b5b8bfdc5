"""Budgeted retraining: retraining that is stopped at the CPU time that pFedUL would use.

A control for what speed is worth: if training anew for as long does as well, nothing was
gained. Rounds are of one local epoch; when the rest of the budget is no whole round, each
client trains on as many batches as fit. What a batch takes is estimated from the run's own
rounds at first, and from what was really used after each round.

CPU time is measured, so that the same request does not end with the same bits, and a
killed one starts over. `rounds` and `steps` in place of a budget make it repeatable.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pfedul.audit.retraining import open_recipe
from pfedul.client import Task
from pfedul.personalization.local import count_batches
from pfedul.unlearn.method import Method, Result
from pfedul.unlearn.methods.pfedul import make_plan
from pfedul.unlearn.starting_over import count, failing_as, recipe_of, result_of
from pfedul.unlearn.work import Work

if TYPE_CHECKING:
    from pfedul.federation import Federation

_LEAST = 1e-9
"""CPU seconds of a batch: a bound from below, so that nothing is divided by zero."""


@dataclass(frozen=True)
class BudgetOptions:
    """`times` pFedUL's CPU time, which is measured on the spot unless `cpu_seconds` gives it.

    `rounds` of one epoch and one more of `steps` batches, in place of a budget.
    """

    times: float = 1.0
    cpu_seconds: float | None = None
    rounds: int | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        if not self.times > 0 or (self.cpu_seconds is not None and not self.cpu_seconds > 0):
            raise ValueError("times and cpu_seconds must be above 0")
        if min(self.rounds or 0, self.steps or 0) < 0:
            raise ValueError("rounds and steps must not be below 0")
        if self.fixed and (self.times != 1.0 or self.cpu_seconds is not None):
            raise ValueError("rounds and steps take the place of times and cpu_seconds")

    @property
    def fixed(self) -> bool:
        """Whether there is no budget to measure."""
        return self.rounds is not None or self.steps is not None


@dataclass
class Training:
    """The new federation on its way."""

    work: Work
    made: Federation
    whole: int = 0
    short: int = 0
    batches: int = 0

    def next_clients(self) -> list[str]:
        return self.made.choose(self.made.rounds + 1)

    def sizes(self, clients: Sequence[str]) -> list[int]:
        """Batches of an epoch of each of these clients."""
        size = self.made.settings.batch_size
        return [count_batches(self.work.samples(client), size) for client in clients]

    def round(self, steps: int | None = None) -> None:
        """One more round: an epoch, or the first `steps` batches of one."""
        clients = self.next_clients()
        result = self.made.play_round(clients, lambda _: None, epochs=1, steps=steps)
        if not self.made.engine.in_process:
            self.work.meter.elsewhere += sum(reply.cpu_seconds for reply in result.accepted)
        self.work.refused |= {refusal.client for refusal in result.refused}
        count(self.work, self.made, 1, len(clients), len(result.accepted))
        self.batches += sum(min(size, steps or size) for size in self.sizes(clients))
        self.whole, self.short = (
            self.whole + (steps is None),
            self.short + (steps is not None),
        )

    def words(self) -> str:
        return (
            f"{self.whole} rounds of an epoch and {self.short} of fewer batches, "
            f"{self.batches} batches in all"
        )


def unlearn(work: Work, options: BudgetOptions) -> Result:
    recipe = recipe_of(work)
    shutil.rmtree(recipe.folder, ignore_errors=True)
    with failing_as(work), closing(open_recipe(work.federation, recipe, rounds=0)) as made:
        training = Training(work, made)
        if options.fixed:
            _train_fixed(training, options.rounds or 0, options.steps or 0)
            return result_of(work, made, training.words())
        usual = _cost_of_pfedul(work) if options.cpu_seconds is None else options.cpu_seconds
        budget = options.times * usual
        spend(training, budget)
        used = work.meter.spent().cpu_seconds
        note = f"a budget of {budget:.3g} CPU seconds ({options.times:g} x {usual:.3g})"
        return result_of(work, made, f"{note}, of which {used:.3g} were used: {training.words()}")


def _train_fixed(training: Training, rounds: int, steps: int) -> None:
    total = rounds + (1 if steps else 0)
    for number in range(1, total + 1):
        training.round(steps if number > rounds else None)
        training.work.on_step("retraining", number, total)


def spend(training: Training, budget: float) -> None:
    """Rounds until no batch of every client fits into what is left of these CPU seconds."""
    meter, price = training.work.meter, _usual_price(training.work)
    started = meter.spent().cpu_seconds
    while True:
        left = budget - meter.spent().cpu_seconds
        sizes = training.sizes(training.next_clients())
        steps = most_steps(sizes, left / price)
        if not steps:
            return
        training.round(None if steps == max(sizes) else steps)
        training.work.on_step("retraining", training.made.rounds, training.made.rounds + 1)
        price = max((meter.spent().cpu_seconds - started) / training.batches, _LEAST)


def most_steps(sizes: Sequence[int], fit: float) -> int:
    """How many batches each client may train on, if it has so many, so that all of them fit.

    >>> most_steps([3, 1], 4), most_steps([3, 1], 3), most_steps([3, 1], 1.9)
    (3, 2, 0)
    """
    steps = 0
    while steps < max(sizes) and sum(min(size, steps + 1) for size in sizes) <= fit:
        steps += 1
    return steps


def _usual_price(work: Work) -> float:
    """CPU seconds of a full batch in the run's own rounds."""
    settings = work.federation.settings
    sql = "SELECT SUM(cpu_seconds) / SUM(samples) FROM rounds WHERE request IS NULL"
    per_sample = work.federation.store.ledger.value(sql) or 0.0
    return max(per_sample / settings.local_epochs * settings.batch_size, _LEAST)


def _cost_of_pfedul(work: Work) -> float:
    """CPU seconds of its plan, correction and recalibration, done for real and thrown away."""
    federation, options = work.federation, work.options
    how = replace(options, method="pfedul", recalibrate=False, no_recalibration=False)
    task = Task("recalibrate", work.request, recalibration=how.recalibration(), seed=options.seed)
    elsewhere = 0.0
    with work.meter.paused():
        started = time.process_time()
        corrected = make_plan(federation, work.targets, options).apply(work.shared)
        asked = task, work.remaining, corrected, federation.locate_personal
        with closing(federation.engine.run(*asked)) as replies:
            for reply in replies:
                elsewhere += reply.cpu_seconds
        own = time.process_time() - started
    return own if federation.engine.in_process else own + elsewhere


def check(work: Work, options: BudgetOptions) -> None:
    """What pFedUL needs is needed here, too, unless its time is given."""
    if not options.fixed and options.cpu_seconds is None:
        make_plan(work.federation, work.targets, work.options)


BUDGETED_RETRAIN = Method(
    name="budgeted-retrain",
    summary="train anew without the targets for no longer than pFedUL takes",
    paper="a control",
    unlearn=unlearn,
    options=BudgetOptions,
    memory="nothing if cpu_seconds, rounds or steps are given; else what pFedUL needs to be timed: "
    "the record fisher",
    who="all remaining clients, personal parts included",
    rounds="what fits into the budget (times, cpu_seconds), or rounds",
    guarantee="exact: the targets never took part; hardly trained",
    avoids="a speed-up over full retraining that stopping early would give as well",
    starts_over=True,
    local_only=True,
    control=True,
    budgeted=True,
    variants=tuple(f"budgeted-retrain:times={times}" for times in (2, 4, 8)),
    check=check,
)
