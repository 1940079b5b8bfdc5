"""Budgeted retraining: retraining that is stopped at the CPU time that pFedUL would use.

A control for what speed is worth. Rounds are of one local epoch; when the rest of the budget is
less than a round, each client trains on as many batches as fit. What clients and batches take is
estimated by a few short rounds that are thrown away and not counted, and corrected by every round
that was really trained.

CPU time is measured, so the same request does not end with the same bits, and a killed
one starts over. `rounds` and `steps` in place of a budget make it repeatable.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np

from pfedul.base.options import option
from pfedul.errors import PfedulError
from pfedul.personalization.local import count_batches
from pfedul.protocol import Reply, Task
from pfedul.run.retrained import open_recipe
from pfedul.run.run import Run
from pfedul.run.training import participants, play_round
from pfedul.server.checks import check_personal
from pfedul.server.round import run_round
from pfedul.store.marker import remove
from pfedul.store.paths import SHARED_FILE
from pfedul.unlearn.base import About, Does, Method, Needs, Result
from pfedul.unlearn.context import Context
from pfedul.unlearn.methods.retrain import as_failure_of, count, recipe_of, result_of
from pfedul.unlearn.pfedul.method import check_record, plan_for
from pfedul.unlearn.pfedul.result import PlanOptions


@dataclass(frozen=True)
class BudgetOptions:
    """A multiple of pFedUL's CPU time, or rounds and batches in place of a budget."""

    times: float = option(1.0, "Multiple of pFedUL's CPU time.", above=0)
    cpu_seconds: float | None = option(
        None,
        "pFedUL's CPU time; if not given, that of the paper's rule, measured on the spot.",
        above=0,
    )
    rounds: int | None = option(None, "Rounds of one epoch, in place of a budget.", at_least=0)
    steps: int | None = option(None, "Batches of one more round, in place of a budget.", at_least=0)

    def __post_init__(self) -> None:
        if self.fixed and (self.times != 1.0 or self.cpu_seconds is not None):
            raise ValueError("rounds and steps take the place of times and cpu_seconds")

    @property
    def fixed(self) -> bool:
        """Whether there is no budget to measure."""
        return self.rounds is not None or self.steps is not None


@dataclass
class Training:
    """The new federation on its way."""

    ctx: Context
    made: Run
    whole: int = 0
    short: int = 0
    batches: int = 0
    seen: list[MeasuredRound] = field(default_factory=list)

    @property
    def used(self) -> float:
        """CPU seconds so far."""
        return self.ctx.account.meter.spent().cpu_seconds

    def next_clients(self) -> list[str]:
        return participants(self.made, self.made.rounds + 1)

    def sizes(self, clients: Sequence[str]) -> list[int]:
        """Batches of an epoch of each of these clients."""
        size = self.made.settings.batch_size
        return [count_batches(self.ctx.samples(client), size) for client in clients]

    def round(self, steps: int | None = None) -> None:
        """One more round: an epoch, or the first `steps` batches of one."""
        clients, before, account = self.next_clients(), self.used, self.ctx.account
        result = play_round(self.made, clients, epochs=1, steps=steps)
        account.meter.elsewhere += sum(map(self.made.cpu_elsewhere, result.accepted))
        account.refused |= {refusal.client for refusal in result.refused}
        count(self.ctx, self.made, 1, len(clients), len(result.accepted))
        self._note(clients, steps, self.used - before)
        self.batches += self.seen[-1].batches
        self.whole += steps is None
        self.short += steps is not None

    def try_out(self, clients: Sequence[str], steps: int | None) -> None:
        """A round with a few of the clients that leaves nothing but what it cost."""
        made, before = self.made, self.used
        rules, stage = replace(made.rules(), min_replies=1), made.personal_place.stage
        result = run_round(
            made.ask, made.rounds + 1, clients, made.shared, rules, stage, epochs=1, steps=steps
        )
        made.store.stage(SHARED_FILE, result.shared)
        elsewhere = sum(map(made.cpu_elsewhere, result.accepted))
        self._note(clients, steps, self.used - before + elsewhere)
        made.store.drop()

    def _note(self, clients: Sequence[str], steps: int | None, cpu_seconds: float) -> None:
        batches = sum(min(size, steps or size) for size in self.sizes(clients))
        self.seen.append(MeasuredRound(len(clients), batches, steps is None, cpu_seconds))

    def words(self) -> str:
        return (
            f"{self.whole} rounds of an epoch and {self.short} of fewer batches, "
            f"{self.batches} batches in all"
        )


def unlearn(ctx: Context, options: BudgetOptions) -> Result:
    recipe = recipe_of(ctx)
    with ctx.account.meter.paused():
        remove(recipe.folder)
        opened = open_recipe(ctx.run, recipe, rounds=0)
    with as_failure_of(ctx), closing(opened) as made:
        training = Training(ctx, made)
        note = _train(training, options)
        with ctx.account.meter.paused():
            return result_of(ctx, made, note)


def _train(training: Training, options: BudgetOptions) -> str:
    """Train as long as the options say; returns what was done, in words."""
    ctx = training.ctx
    if options.fixed:
        _train_fixed(training, options.rounds or 0, options.steps or 0)
        return training.words()
    usual = _cost_of_pfedul(ctx) if options.cpu_seconds is None else options.cpu_seconds
    budget = options.times * usual
    spend(training, budget)
    asked = f"a budget of {budget:.3g} CPU seconds ({options.times:g} x {usual:.3g})"
    return f"{asked}, of which {training.used:.3g} were used: {training.words()}"


def _train_fixed(training: Training, rounds: int, steps: int) -> None:
    total = rounds + (1 if steps else 0)
    for number in range(1, total + 1):
        training.round(steps if number > rounds else None)
        training.ctx.on_step("retraining", number, total)


def spend(training: Training, budget: float) -> None:
    """Rounds until no batch of every client fits into what is left of these CPU seconds."""
    ctx = training.ctx
    with ctx.account.meter.paused():
        learn_prices(training)
    while True:
        sizes = training.sizes(training.next_clients())
        left, prices = budget - training.used, fitted_prices(training.seen)
        whole = prices.of_round(sizes) <= left
        steps = None if whole else prices.most_steps(sizes, left)
        if steps == 0:
            return
        training.round(steps)
        ctx.on_step("retraining", training.made.rounds, training.made.rounds + 1)


def learn_prices(training: Training) -> None:
    """Try out one batch, half an epoch and an epoch of the largest clients."""
    clients = training.next_clients()
    largest = sorted(clients, key=lambda client: (-training.ctx.samples(client), client))[:_TRIED]
    training.try_out(largest, 1)
    training.seen.clear()  # the first time is slower than any other
    epoch = max(training.sizes(largest))
    half = max(2, epoch // 2)
    for steps in (1, half, None) if half < epoch else (1, None):
        training.try_out(largest, steps)


_TRIED = 3
"""So many clients tell what a client and a batch cost."""


def _cost_of_pfedul(ctx: Context) -> float:
    """CPU seconds of the paper's rule (plan, correction, recalibration), done and thrown away."""
    run, rules, elsewhere = ctx.run, ctx.run.rules(), 0.0
    task = Task("recalibrate", ctx.request, recalibration=ctx.recalibration, seed=ctx.request_seed)

    def check(reply: Reply, client: str) -> str | None:
        return check_personal(reply, rules, client, {})

    def book(reply: Reply) -> None:
        nonlocal elsewhere
        elsewhere += run.cpu_elsewhere(reply)

    with ctx.account.meter.paused():
        started = time.process_time()
        plan = plan_for(run, ctx.targets, PlanOptions(seed=ctx.seed))
        corrected = ctx.finite(plan.apply(ctx.shared))
        for reply in run.ask(task, ctx.remaining, corrected, check, on_reply=book):
            run.personal_place.stage(reply)
        spent = time.process_time() - started
        run.store.drop()
    return spent + elsewhere


def check(ctx: Context, options: BudgetOptions) -> None:
    """What pFedUL needs is needed here, too, unless its time is given."""
    if options.fixed or options.cpu_seconds is not None:
        return
    try:
        check_record(ctx.run, PlanOptions())
    except PfedulError as error:
        raise PfedulError(
            f"{str(error).rstrip('.')}; or give the budget that pFedUL's time would be: "
            "--method budgeted-retrain:cpu_seconds=2, or :rounds=3."
        ) from None


# What rounds cost, learned from rounds that were measured. A client costs something before its
# first batch, so short rounds are relatively more expensive. A batch of a whole epoch may cost
# other than one of an epoch that is cut short, where a personalisation trains in phases.


_LEAST = 1e-9
"""CPU seconds of a batch: at least this, or batches could be free."""


@dataclass(frozen=True)
class MeasuredRound:
    """A round that was measured: its clients, their batches together, whole epochs or not."""

    clients: int
    batches: int
    whole: bool
    cpu_seconds: float


@dataclass(frozen=True)
class Prices:
    """CPU seconds of a client, of a batch of a shortened epoch, of one of a whole epoch."""

    client: float
    batch: float
    whole: float

    def of_round(self, sizes: Sequence[int], steps: int | None = None) -> float:
        """A round of clients with so many batches each: an epoch, or `steps` batches of one."""
        if steps is None:
            return self.client * len(sizes) + self.whole * sum(sizes)
        return self.client * len(sizes) + self.batch * sum(min(size, steps) for size in sizes)

    def most_steps(self, sizes: Sequence[int], seconds: float) -> int:
        """How many batches each client may train on, if it has so many, within these seconds.

        >>> prices = Prices(client=1, batch=1, whole=1)
        >>> prices.most_steps([3, 1], 6), prices.most_steps([3, 1], 5), prices.most_steps([3], 1.9)
        (3, 2, 0)
        """
        steps = 0
        while steps < max(sizes) and self.of_round(sizes, steps + 1) <= seconds:
            steps += 1
        return steps


def fitted_prices(rounds: Sequence[MeasuredRound]) -> Prices:
    """Prices that fit these rounds best, by least squares; none of them is below zero.

    >>> rows = (2, 2, False, 8.0), (2, 6, False, 12.0), (1, 4, True, 11.0)
    >>> prices = fitted_prices([MeasuredRound(*row) for row in rows])
    >>> [round(price, 6) for price in (prices.client, prices.batch, prices.whole)]
    [3.0, 1.0, 2.0]
    """
    short = [one for one in rounds if not one.whole]
    client, batch = _fitted(short or rounds)
    whole = [one for one in rounds if one.whole]
    rest = sum(one.cpu_seconds - client * one.clients for one in whole)
    of_whole = rest / sum(one.batches for one in whole) if whole else batch
    return Prices(client, batch, max(of_whole, _LEAST))


def _fitted(rounds: Sequence[MeasuredRound]) -> tuple[float, float]:
    """Prices of a client and of a batch that fit the measured rounds best."""
    counts = np.array([(one.clients, one.batches) for one in rounds], dtype=float)
    cost = np.array([one.cpu_seconds for one in rounds])
    client, batch = np.linalg.lstsq(counts, cost)[0]
    if client >= 0 and batch > 0:
        return float(client), float(batch)
    return 0.0, max(float(cost.sum() / counts[:, 1].sum()), _LEAST)


BUDGETED_RETRAIN = Method(
    name="budgeted-retrain",
    summary="train from scratch without the targets for no longer than pFedUL takes",
    unlearn=unlearn,
    about=About(
        paper="a control",
        who="all remaining clients, personal parts included",
        rounds="what fits into the budget (times, cpu_seconds), or rounds",
        memory=(
            "nothing if cpu_seconds, rounds or steps are given; else what pFedUL needs to be "
            "timed: the record fisher"
        ),
        guarantee="exact: the targets never took part; hardly trained",
        avoids="a speed-up over full retraining that stopping early would give as well",
        control=True,
        variants=tuple(f"budgeted-retrain:times={times}" for times in (2, 4, 8)),
    ),
    options=BudgetOptions,
    needs=Needs(local=True),
    does=Does(starts_over=True, budgeted=True),
    check=check,
)
