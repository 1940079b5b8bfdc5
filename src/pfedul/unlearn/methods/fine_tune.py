"""Fine-tune: gradient ascent at the target, then rounds on the remaining clients.

A baseline of the pFedUL paper: GA-Naive's ascent and 10 rounds of fine-tuning. The paper
gives no other number of local epochs for them than that of training, so that they have as many.
Only shared tensors are tuned; the remaining clients' personal parts stand still.
"""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.at_client import SharedTraining
from pfedul.base.tensors import Tensors
from pfedul.unlearn.base import Method, Result
from pfedul.unlearn.context import Work
from pfedul.unlearn.limits import require_above_zero
from pfedul.unlearn.methods.ga_naive import AscentOptions, ascended


@dataclass(frozen=True)
class FineTuneOptions:
    """`rounds` of `epochs` after `ascent` passes of ascent with `lr` and `clip`.

    `epochs`: the local epochs of training unless given.
    """

    rounds: int = 10
    epochs: int | None = None
    ascent: int = 20
    lr: float = 0.1
    clip: float = 1.0

    def __post_init__(self) -> None:
        require_above_zero(rounds=self.rounds, epochs=self.epochs, ascent=self.ascent)
        require_above_zero(lr=self.lr, clip=self.clip)


def unlearn(work: Work, options: FineTuneOptions) -> Result:
    ascent = AscentOptions(options.ascent, options.lr, options.clip)
    return Result(fine_tuned(work, ascended(work, ascent), options.rounds, options.epochs))


def fine_tuned(work: Work, shared: Tensors, rounds: int, epochs: int | None = None) -> Tensors:
    """Rounds over the remaining clients on the shared tensors alone.

    Ordinary ones, with the local epochs of training, unless `epochs` are given.
    """
    how = SharedTraining(epochs or work.federation.settings.local_epochs)

    def step(_number: int, before: Tensors) -> Tensors:
        return work.mean("train-shared", work.remaining, before, how)

    return work.steps("fine-tuning", rounds, shared, step)


FINE_TUNE = Method(
    name="fine-tune",
    summary="gradient ascent at the target, then rounds on the others",
    paper="a baseline of Liu, Li, Zhang, arXiv 2606.16304",
    unlearn=unlearn,
    options=FineTuneOptions,
    target_works=True,
    who="the targets, then all remaining clients",
    rounds="20 (ascent) + 10 (rounds)",
    avoids="the paper gives rounds and no rates: ascent is clipped and slow as in ga-naive, the "
    "rounds have the rate and the local epochs of training; that they may bring the target back "
    "is not hidden",
)
