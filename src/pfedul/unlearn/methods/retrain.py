"""Retrain: the run's own configuration, from its own initial tensors, without the targets.

What every other method is measured against. With the run's seed the result is, bit for bit, the
federation that the remaining clients would have made by themselves; only who takes part in
a round of partial participation differs, where a target was among them.

It trains an ordinary run in a folder of its own among the notes of the request, on the run's
engine. Personal parts start over as well. All records describe the old training and are erased:
those of the new one would not fit the ledger, whose rounds stay the old ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from pfedul.base.options import option
from pfedul.errors import MethodFailed, PfedulError
from pfedul.run.retrained import Recipe, open_recipe, rounds_done
from pfedul.run.run import Run
from pfedul.server.checks import NOT_FINITE
from pfedul.server.round import MeanOverflows, TooFewReplies
from pfedul.store.paths import INIT_FILE
from pfedul.store.tables import refused_clients, spent_on_rounds
from pfedul.unlearn.base import About, Does, Method, Needs, Result
from pfedul.unlearn.context import Context
from pfedul.unlearn.outcome import StageCost


@dataclass(frozen=True)
class RetrainOptions:
    """`rounds`: as many as the run had unless given."""

    rounds: int | None = option(None, "Rounds of training; as many as the run had.", at_least=1)


def unlearn(ctx: Context, options: RetrainOptions) -> Result:
    recipe, rounds = recipe_of(ctx), options.rounds or ctx.rounds
    done = rounds_done(ctx.run, recipe)
    clients = max(1, round(ctx.settings.participation * len(ctx.remaining)))

    def report(replies: int) -> None:
        ctx.on_step("retraining", replies, rounds * clients)

    with as_failure_of(ctx), closing(open_recipe(ctx.run, recipe, report, rounds)) as made:
        _count(ctx, made, done)
        return result_of(ctx, made)


def _count(ctx: Context, made: Run, done: int) -> None:
    """What all rounds took; `done` of them were there before this process began."""
    ledger = made.store.ledger
    total, refused = spent_on_rounds(ledger), refused_clients(ledger)
    ctx.account.refused |= set(refused)
    count(ctx, made, total.rounds, total.replies + len(refused), total.replies)
    before, since = spent_on_rounds(ledger, until=done), spent_on_rounds(ledger, since=done)
    ctx.account.meter.before = StageCost(before.seconds, before.cpu_seconds)
    if not made.engine.in_process:
        ctx.account.meter.elsewhere += since.cpu_seconds


def check(ctx: Context, _options: RetrainOptions) -> None:
    """The ledger's rounds stay those of the old training, and clusters are taken up by them."""
    if ctx.clusters.several and ctx.settings.participation < 1:
        raise PfedulError(
            "A run with clusters and --participation below 1 cannot be retrained in place, as "
            "later requests would not know who took part when; use --method knot."
        )


# What both methods that start over need; the other is budgeted.py


OLD_RECORDS = (
    "all records were of the training that is replaced, and are erased; train on to build new ones"
)


def recipe_of(ctx: Context) -> Recipe:
    """The run without the targets, with its own seed: the same initial weights and draws."""
    folder = ctx.notebook.made_folder() / "retrained"
    return Recipe("retrained", folder, ctx.seed, ctx.remaining, "none")


@contextmanager
def as_failure_of(ctx: Context) -> Iterator[None]:
    """A round of the new training that came to nothing is the failure of the method."""
    try:
        yield
    except MeanOverflows as error:
        raise _diverged(ctx, error.number, "the mean of its replies overflows") from error
    except TooFewReplies as error:
        bad = [refusal for refusal in error.refused if NOT_FINITE in refusal.reason]
        if bad:
            raise _diverged(ctx, error.number, f"{bad[0].client}: {bad[0].reason}") from error
        worst = "; ".join(f"{one.client}: {one.reason}" for one in error.refused[:1])
        raise MethodFailed(
            f"The method '{ctx.name}' had too few usable replies in round {error.number} of its "
            f"training ({worst}). The run is as it was; try again, or choose another method."
        ) from error


def _diverged(ctx: Context, number: int, why: str) -> MethodFailed:
    return MethodFailed(
        f"The method '{ctx.name}' diverged in round {number} of its training ({why}). "
        "The run is as it was; try another --seed, or another method."
    )


def count(ctx: Context, made: Run, rounds: int, asked: int, answered: int) -> None:
    """Rounds, and shared tensors that went out to clients and came back."""
    size = made.clusters.served_bytes(made.shared)
    ctx.account.counts.rounds += rounds
    ctx.account.counts.bytes_broadcast += size * asked
    ctx.account.counts.bytes_uploaded += size * answered


def result_of(ctx: Context, made: Run, *notes: str) -> Result:
    """Shared, personal and initial tensors as the new federation has them."""
    personal = {client: made.personal(client) for client in ctx.remaining}
    kept = ctx.settings.record != "none"
    return Result(
        dict(made.shared),
        {client: tensors for client, tensors in personal.items() if tensors},
        notes=(*notes, OLD_RECORDS) if kept else notes,
        initial=made.store.read(INIT_FILE),
    )


RETRAIN = Method(
    name="retrain",
    summary="train again from the initial tensors without the targets",
    unlearn=unlearn,
    about=About(
        paper="the reference of all papers",
        who="all remaining clients, personal parts included",
        rounds="as many as the run had (rounds)",
        guarantee="exact: the targets never took part",
        avoids="a retrained baseline that drops one client too many, or that keeps personal parts",
    ),
    options=RetrainOptions,
    needs=Needs(local=True),
    does=Does(starts_over=True, clusters=True),
    check=check,
)
