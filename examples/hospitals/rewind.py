"""An unlearning method of your own: go part of the way back to before training, then train on."""

from dataclasses import dataclass

import torch

from pfedul.base.options import option
from pfedul.unlearn.base import About, Method, Result
from pfedul.unlearn.context import Context
from pfedul.unlearn.training import TRAIN_SHARED, fine_tuned


@dataclass(frozen=True)
class RewindOptions:
    """`pfedul forget --method rewind:share=0.8` gives one of them."""

    share: float = option(0.5, "How far to go back.", above=0, at_most=1)
    rounds: int = option(2, "Rounds over the remaining clients.", at_least=1)


def unlearn(ctx: Context, options: RewindOptions) -> Result:
    """The request comes in; the shared tensors without the client go out."""
    before, initial = ctx.shared, ctx.initial
    back = {
        name: torch.lerp(tensor, initial[name], options.share)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in before.items()
    }
    return Result(fine_tuned(ctx, back, options.rounds))


REWIND = Method(
    name="rewind",
    summary="go half of the way back to before training, then train on",
    unlearn=unlearn,
    about=About(paper="an example", who="all remaining clients", rounds="2 (rounds)"),
    options=RewindOptions,
    client=TRAIN_SHARED,
)
