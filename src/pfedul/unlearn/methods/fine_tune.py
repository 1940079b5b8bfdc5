"""Fine-tune: GA-Naive's ascent at the target, then rounds on the remaining clients.

A baseline of the pFedUL paper, which names no number of local epochs for these rounds: they have
as many as training.
"""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.base.options import option
from pfedul.unlearn.base import About, Method, Needs, Result
from pfedul.unlearn.context import Context
from pfedul.unlearn.methods.ga_naive import AscentOptions, ascended
from pfedul.unlearn.training import TRAIN_SHARED, fine_tuned


@dataclass(frozen=True)
class FineTuneOptions:
    """The ascent, and the rounds after it."""

    rounds: int = option(10, "Rounds over the remaining clients after the ascent.", at_least=1)
    epochs: int | None = option(None, "Epochs of a round; those of training.", at_least=1)
    ascent: int = option(20, "Passes of ascent over the targets' samples.", at_least=1)
    lr: float = option(0.1, "Rate of the ascent, as a share of that of training.", above=0)
    clip: float = option(1.0, "Bound on the norm of each gradient of the ascent.", above=0)


def unlearn(ctx: Context, options: FineTuneOptions) -> Result:
    ascent = AscentOptions(options.ascent, options.lr, options.clip)
    return Result(fine_tuned(ctx, ascended(ctx, ascent), options.rounds, options.epochs))


FINE_TUNE = Method(
    name="fine-tune",
    summary="gradient ascent at the target, then rounds on the others",
    unlearn=unlearn,
    about=About(
        paper="a baseline of Liu, Li, Zhang, arXiv 2606.16304",
        who="the targets, then all remaining clients",
        rounds="20 (ascent) + 10 (rounds)",
        avoids=(
            "the paper gives rounds and no rates: ascent is clipped and slow as in ga-naive, the "
            "rounds have the rate and the local epochs of training; that they may bring the "
            "target back is not hidden"
        ),
    ),
    options=FineTuneOptions,
    needs=Needs(target=True),
    client=TRAIN_SHARED,
)
