"""GA-Naive: uniform gradient ascent on all shared layers, on the target's samples.

A baseline of the pFedUL paper. A round is one pass of the target over its own samples, through
its own personal part; several targets ascend from the same tensors and their results are averaged.
The loss has no upper bound, so gradients are clipped and steps are small.
"""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.base.options import option
from pfedul.base.tensors import Tensors
from pfedul.unlearn.base import About, Method, Needs, Result
from pfedul.unlearn.context import Context
from pfedul.unlearn.training import TRAIN_SHARED, SharedTraining


@dataclass(frozen=True)
class AscentOptions:
    """`rounds`: passes over the targets' samples; `lr`: a share of that of training."""

    rounds: int = option(20, "Passes over the targets' samples.", at_least=1)
    lr: float = option(0.1, "Rate, as a share of that of training.", above=0)
    clip: float = option(1.0, "Bound on the norm of each gradient.", above=0)


def unlearn(ctx: Context, options: AscentOptions) -> Result:
    return Result(ascended(ctx, options))


def ascended(ctx: Context, options: AscentOptions) -> Tensors:
    """The shared tensors after ascent; normalisation statistics stay as they are."""
    how = SharedTraining(
        lr=options.lr * ctx.settings.lr,
        momentum=0.0,
        objective="ascend",
        clip=options.clip,
        statistics=False,
    )

    def step(_number: int, shared: Tensors) -> Tensors:
        return ctx.mean("train-shared", ctx.targets, shared, how)

    return ctx.steps("ascent", options.rounds, dict(ctx.shared), step)


GA_NAIVE = Method(
    name="ga-naive",
    summary="gradient ascent on the target's samples, on all shared layers alike",
    unlearn=unlearn,
    about=About(
        paper="a baseline of Liu, Li, Zhang, arXiv 2606.16304",
        who="the targets alone",
        rounds="20 (rounds)",
        avoids="ascent without a bound on the gradient ends in values that are not finite",
    ),
    options=AscentOptions,
    needs=Needs(target=True),
    client=TRAIN_SHARED,
)
