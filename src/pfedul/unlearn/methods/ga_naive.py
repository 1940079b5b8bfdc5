"""GA-Naive: uniform gradient ascent on all shared layers, on the target's samples.

A baseline of the pFedUL paper, which gives 20 rounds and nothing else. Here a round
is one pass of the target over its own samples, through its own personal part, with
the gradient turned round; several targets ascend from the same tensors and their
results are averaged. The loss has no upper bound, so that ascent with the rate of
training ends in values that are not finite: gradients are clipped and steps are small.
"""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.at_client import SharedTraining
from pfedul.base.tensors import Tensors
from pfedul.unlearn.base import Method, Result
from pfedul.unlearn.context import Work
from pfedul.unlearn.limits import require_above_zero


@dataclass(frozen=True)
class AscentOptions:
    """`rounds`: passes over the targets' samples; `lr`: a share of that of training."""

    rounds: int = 20
    lr: float = 0.1
    clip: float = 1.0

    def __post_init__(self) -> None:
        require_above_zero(rounds=self.rounds, lr=self.lr, clip=self.clip)


def unlearn(work: Work, options: AscentOptions) -> Result:
    return Result(ascended(work, options))


def ascended(work: Work, options: AscentOptions) -> Tensors:
    """The shared tensors after ascent; normalisation statistics stay as they are."""
    how = SharedTraining(
        lr=options.lr * work.federation.settings.lr,
        momentum=0.0,
        objective="ascend",
        clip=options.clip,
        statistics=False,
    )

    def step(_number: int, shared: Tensors) -> Tensors:
        return work.mean("train-shared", work.targets, shared, how)

    return work.steps("ascent", options.rounds, dict(work.shared), step)


GA_NAIVE = Method(
    name="ga-naive",
    summary="gradient ascent on the target's samples, on all shared layers alike",
    paper="a baseline of Liu, Li, Zhang, arXiv 2606.16304",
    unlearn=unlearn,
    options=AscentOptions,
    target_works=True,
    who="the targets alone",
    rounds="20 (rounds)",
    avoids="ascent without a bound on the gradient ends in values that are not finite",
)
