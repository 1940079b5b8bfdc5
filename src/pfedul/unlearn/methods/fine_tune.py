"""Fine-tune: gradient ascent at the target, then rounds on the remaining clients.

A baseline of the pFedUL paper: GA-Naive's ascent and 10 rounds of fine-tuning. Only
shared tensors are tuned; the remaining clients' personal parts stand still.
"""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.at_client import SharedTraining
from pfedul.tensors import Tensors
from pfedul.unlearn.method import Method, Result
from pfedul.unlearn.methods.ga_naive import AscentOptions, ascended
from pfedul.unlearn.work import Work


@dataclass(frozen=True)
class FineTuneOptions:
    """`rounds` of `epochs` after `ascent` passes of ascent with `lr` and `clip`."""

    rounds: int = 10
    epochs: int = 1
    ascent: int = 20
    lr: float = 0.1
    clip: float = 1.0

    def __post_init__(self) -> None:
        if min(self.rounds, self.epochs, self.ascent) < 1 or min(self.lr, self.clip) <= 0:
            raise ValueError("rounds, epochs, ascent, lr and clip must be above 0")


def unlearn(work: Work, options: FineTuneOptions) -> Result:
    ascent = AscentOptions(options.ascent, options.lr, options.clip)
    return Result(fine_tuned(work, ascended(work, ascent), options.rounds, options.epochs))


def fine_tuned(work: Work, shared: Tensors, rounds: int, epochs: int = 1) -> Tensors:
    """Rounds over the remaining clients on the shared tensors alone."""

    def step(_number: int, before: Tensors) -> Tensors:
        how = SharedTraining(epochs)
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
    "rounds are ordinary ones; that they may bring the target back is not hidden",
)
