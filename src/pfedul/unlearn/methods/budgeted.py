"""Budgeted retraining: retraining that is stopped at the CPU time that pFedUL would use.

A control for what speed is worth: if training anew for as long does as well, nothing was
gained. Rounds are of one local epoch; when the rest of the budget is no whole round, each
client trains on as many batches as fit. What clients and batches take is found out by a few
short rounds that are thrown away, and corrected by every round that was really trained. These
trials are not paid for, nor are making the folder of the new federation and reading it back:
pFedUL has nothing of the kind, and the question is what training could do in its time.

CPU time is measured, so that the same request does not end with the same bits, and a
killed one starts over. `rounds` and `steps` in place of a budget make it repeatable.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pfedul.errors import PfedulError
from pfedul.personalization.local import count_batches
from pfedul.protocol import RoundResult, Task
from pfedul.run.retrained import open_recipe
from pfedul.server.checks import check_personal
from pfedul.server.round import run_round
from pfedul.store.paths import SHARED_FILE
from pfedul.unlearn.base import Method, Result
from pfedul.unlearn.context import Work
from pfedul.unlearn.limits import require_above_zero
from pfedul.unlearn.pfedul.method import make_plan
from pfedul.unlearn.prices import Seen, learnt
from pfedul.unlearn.starting_over import count, failing_as, recipe_of, result_of

if TYPE_CHECKING:
    from pfedul.federation import Federation


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
        require_above_zero(times=self.times, cpu_seconds=self.cpu_seconds)
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
    seen: list[Seen] = field(default_factory=list)

    def next_clients(self) -> list[str]:
        return self.made.choose(self.made.rounds + 1)

    def sizes(self, clients: Sequence[str]) -> list[int]:
        """Batches of an epoch of each of these clients."""
        size = self.made.settings.batch_size
        return [count_batches(self.work.samples(client), size) for client in clients]

    def round(self, steps: int | None = None) -> None:
        """One more round: an epoch, or the first `steps` batches of one."""
        clients, before = self.next_clients(), self.work.meter.spent().cpu_seconds
        result = self.made.play_round(clients, lambda _: None, epochs=1, steps=steps)
        self.work.meter.elsewhere += self._elsewhere(result)
        self.work.refused |= {refusal.client for refusal in result.refused}
        count(self.work, self.made, 1, len(clients), len(result.accepted))
        self._note(clients, steps, self.work.meter.spent().cpu_seconds - before)
        self.batches += self.seen[-1].batches
        self.whole += steps is None
        self.short += steps is not None

    def try_out(self, clients: Sequence[str], steps: int | None) -> None:
        """A round with a few of the clients that leaves nothing but what it cost."""
        made, store = self.made, self.made.store
        rules = replace(made.rules(), min_replies=1)
        asked = made.engine, made.rounds + 1, clients, made.shared, made.locate_personal
        before = self.work.meter.spent().cpu_seconds
        keep = made.personal_place.stage
        result = run_round(*asked, rules, keep, epochs=1, steps=steps)
        store.stage(SHARED_FILE, result.shared)
        spent = self.work.meter.spent().cpu_seconds - before + self._elsewhere(result)
        self._note(clients, steps, spent)
        store.drop()

    def _elsewhere(self, result: RoundResult) -> float:
        """CPU seconds of other processes."""
        inside = self.made.engine.in_process
        return 0.0 if inside else sum(reply.cpu_seconds for reply in result.accepted)

    def _note(self, clients: Sequence[str], steps: int | None, cpu_seconds: float) -> None:
        batches = sum(min(size, steps or size) for size in self.sizes(clients))
        self.seen.append(Seen(len(clients), batches, steps is None, cpu_seconds))

    def words(self) -> str:
        return (
            f"{self.whole} rounds of an epoch and {self.short} of fewer batches, "
            f"{self.batches} batches in all"
        )


def unlearn(work: Work, options: BudgetOptions) -> Result:
    recipe = recipe_of(work)
    with work.meter.paused():
        shutil.rmtree(recipe.folder, ignore_errors=True)
        opened = open_recipe(work.federation, recipe, rounds=0)
    with failing_as(work), closing(opened) as made:
        training = Training(work, made)
        note = _train(training, options)
        with work.meter.paused():
            return result_of(work, made, note)


def _train(training: Training, options: BudgetOptions) -> str:
    """Train as long as the options say; returns what was done, in words."""
    work = training.work
    if options.fixed:
        _train_fixed(training, options.rounds or 0, options.steps or 0)
        return training.words()
    usual = _cost_of_pfedul(work) if options.cpu_seconds is None else options.cpu_seconds
    budget = options.times * usual
    spend(training, budget)
    used = work.meter.spent().cpu_seconds
    asked = f"a budget of {budget:.3g} CPU seconds ({options.times:g} x {usual:.3g})"
    return f"{asked}, of which {used:.3g} were used: {training.words()}"


def _train_fixed(training: Training, rounds: int, steps: int) -> None:
    total = rounds + (1 if steps else 0)
    for number in range(1, total + 1):
        training.round(steps if number > rounds else None)
        training.work.on_step("retraining", number, total)


def spend(training: Training, budget: float) -> None:
    """Rounds until no batch of every client fits into what is left of these CPU seconds."""
    work = training.work
    with work.meter.paused():
        learn_prices(training)
    while True:
        sizes = training.sizes(training.next_clients())
        left, prices = budget - work.meter.spent().cpu_seconds, learnt(training.seen)
        whole = prices.of_round(sizes) <= left
        steps = None if whole else prices.most_steps(sizes, left)
        if steps == 0:
            return
        training.round(steps)
        work.on_step("retraining", training.made.rounds, training.made.rounds + 1)


def learn_prices(training: Training) -> None:
    """Try out one batch, half an epoch and an epoch of the largest clients."""
    clients = training.next_clients()
    largest = sorted(clients, key=lambda client: (-training.work.samples(client), client))[:_TRIED]
    training.try_out(largest, 1)
    training.seen.clear()  # the first time is slower than any other
    epoch = max(training.sizes(largest))
    half = max(2, epoch // 2)
    for steps in (1, half, None) if half < epoch else (1, None):
        training.try_out(largest, steps)


_TRIED = 3
"""So many clients tell what a client and a batch cost."""


def _cost_of_pfedul(work: Work) -> float:
    """CPU seconds of its plan, correction and recalibration, done for real and thrown away.

    The same stages as `spent_by_method` counts where pFedUL was really done.
    """
    federation, options = work.federation, work.options
    how = replace(options, method="pfedul", recalibrate=False, no_recalibration=False)
    task = Task("recalibrate", work.request, recalibration=how.recalibration(), seed=options.seed)
    elsewhere, rules = 0.0, federation.rules()
    with work.meter.paused():
        started = time.process_time()
        corrected = work.finite(make_plan(federation, work.targets, options).apply(work.shared))
        asked = task, work.remaining, corrected, federation.locate_personal
        with closing(federation.engine.run(*asked)) as replies:
            for client, reply in zip(work.remaining, replies, strict=True):
                elsewhere += reply.cpu_seconds
                if check_personal(reply, rules, client, {}) is None:
                    federation.personal_place.stage(reply)
        own = time.process_time() - started
        federation.store.drop()
    return own if federation.engine.in_process else own + elsewhere


def check(work: Work, options: BudgetOptions) -> None:
    """What pFedUL needs is needed here, too, unless its time is given."""
    if options.fixed or options.cpu_seconds is not None:
        return
    try:
        make_plan(work.federation, work.targets, work.options)
    except PfedulError as error:
        raise PfedulError(
            f"{str(error).rstrip('.')}; or give the budget that pFedUL's time would be: "
            "--method budgeted-retrain:cpu_seconds=2, or :rounds=3."
        ) from None


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
