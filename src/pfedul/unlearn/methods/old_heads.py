"""Old heads: training from scratch with the remaining clients' personal parts kept.

A control: the shared tensors start again from the initial ones, and a few rounds of one epoch
train them through the old personal parts, which stand still; the rate falls to zero along a
cosine over all rounds. Then personal parts are recalibrated. It is far stronger than a retraining
of the same cost that also throws the personal parts away, and what a method cannot beat
at the same cost has no reason to exist.
"""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.base.options import option
from pfedul.unlearn.base import About, Does, Method, Result
from pfedul.unlearn.context import Context
from pfedul.unlearn.methods.retrain import OLD_RECORDS
from pfedul.unlearn.training import TRAIN_SHARED, fine_tuned


@dataclass(frozen=True)
class OldHeadsOptions:
    """`rounds` of `epochs` from the initial tensors."""

    rounds: int = option(4, "Rounds over the remaining clients.", at_least=1)
    epochs: int = option(1, "Local epochs of a round.", at_least=1)


def unlearn(ctx: Context, options: OldHeadsOptions) -> Result:
    shared = fine_tuned(ctx, ctx.initial, options.rounds, options.epochs, cosine=True)
    return Result(shared, notes=(OLD_RECORDS,) if ctx.settings.record != "none" else ())


OLD_HEADS = Method(
    name="old-heads",
    summary="from the initial tensors, through the others' old personal parts",
    unlearn=unlearn,
    about=About(
        paper="a control",
        who="all remaining clients",
        rounds="4 (rounds)",
        avoids="retraining that throws the personal parts away is too weak to compare with",
        control=True,
        variants=tuple(f"old-heads:rounds={rounds}" for rounds in (1, 2, 8)),
    ),
    options=OldHeadsOptions,
    does=Does(recalibrates=True, starts_over=True),
    client=TRAIN_SHARED,
)
