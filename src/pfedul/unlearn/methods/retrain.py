"""Retrain: the run's own configuration, from its own initial tensors, without the targets.

What every other method is measured against. It is trained with the run's seed, so that
initial weights and the draws of the remaining clients are those of the run: what comes out
is, bit for bit, the federation that these clients would have made by themselves. Only who
takes part in a round of partial participation differs, where a target was among them.
As oracles do, it does not repeat that a client joined late or that rounds repaired
an earlier removal.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pfedul.errors import PfedulError
from pfedul.run.retrained import open_recipe, rounds_done
from pfedul.unlearn.base import Method, Result
from pfedul.unlearn.context import Work
from pfedul.unlearn.outcome import StageCost
from pfedul.unlearn.starting_over import count, failing_as, recipe_of, result_of

if TYPE_CHECKING:
    from pfedul.federation import Federation


@dataclass(frozen=True)
class RetrainOptions:
    """`rounds`: as many as the run had unless given."""

    rounds: int | None = None

    def __post_init__(self) -> None:
        if self.rounds is not None and self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, not {self.rounds}")


def unlearn(work: Work, options: RetrainOptions) -> Result:
    recipe, rounds = recipe_of(work), options.rounds or work.federation.rounds
    done = rounds_done(recipe)
    asked = max(1, round(work.federation.settings.participation * len(work.remaining)))

    def told(replies: int) -> None:
        work.on_step("retraining", replies, rounds * asked)

    with failing_as(work), closing(open_recipe(work.federation, recipe, told, rounds)) as made:
        _count(work, made, done)
        return result_of(work, made)


def _count(work: Work, made: Federation, done: int) -> None:
    """What all rounds took; `done` of them were there before this process began."""
    ledger = made.store.ledger
    total = ledger.rows("SELECT COUNT(*) AS rounds, SUM(replies) AS replies FROM rounds")[0]
    refused = [row["client"] for row in ledger.rows("SELECT client FROM refusals WHERE round > 0")]
    work.refused |= set(refused)
    count(work, made, total["rounds"], total["replies"] + len(refused), total["replies"])
    spent = "SELECT SUM(seconds) AS s, SUM(cpu_seconds) AS cpu FROM rounds WHERE round "
    before, since = (ledger.rows(f"{spent} {sign} ?", done)[0] for sign in ("<=", ">"))
    work.meter.before = StageCost(before["s"] or 0.0, before["cpu"] or 0.0)
    if not made.engine.in_process:
        work.meter.elsewhere += since["cpu"] or 0.0


def check(work: Work, _options: RetrainOptions) -> None:
    """The ledger's rounds stay those of the old training, and clusters are taken up by them."""
    federation = work.federation
    if federation.clusters.several and federation.settings.participation < 1:
        raise PfedulError(
            "A run with clusters and --participation below 1 cannot be retrained in place, as "
            "later requests would not know who took part when; use --method knot."
        )


RETRAIN = Method(
    name="retrain",
    summary="train anew from the initial tensors without the targets",
    paper="the reference of all papers",
    unlearn=unlearn,
    options=RetrainOptions,
    who="all remaining clients, personal parts included",
    rounds="as many as the run had (rounds)",
    guarantee="exact: the targets never took part",
    avoids="a retrained baseline that drops one client too many, or that keeps personal parts",
    starts_over=True,
    local_only=True,
    clustered=True,
    check=check,
)
