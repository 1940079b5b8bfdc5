"""Our own: the targets' accumulated contribution leaves every layer.

    theta_without = base + sum over the remaining clients of S_u / (1 - w_U)

where S_u is the sum of client u's own weighted updates (`pfedul.records.contributions`) and w_U
the targets' share of the weights. The layer moves from theta to theta_without by `strength`.

At strength 1 the new parameters are a function of the initial tensors and the remaining
clients' own updates alone: the targets' direct influence is exactly zero, whatever they sent.
Their indirect influence is not covered: the others computed their updates on models that the
targets had shaped.
"""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.base.options import option
from pfedul.unlearn.pfedul.corrections.base import Corrected, Correction, LayerView


@dataclass(frozen=True)
class ExcludeOptions:
    """How far the layers move."""

    strength: float = option(
        1.0, "1: all the way to the parameters without the targets", above=0, at_most=1
    )


def correct(view: LayerView, options: ExcludeOptions) -> Corrected:
    """The layer moved toward its value without the targets; at strength 1 exactly there.

    At strength 1 the present value is not read: its rounding depends on the targets.
    """
    part = options.strength
    tensors = {
        name: (other if part == 1 else theta.double().lerp(other, part)).to(theta.dtype)
        for (name, theta), other in zip(view.shared.items(), view.without.values(), strict=True)
    }
    return Corrected.of(view, tensors, at_bound=0)


EXCLUDE = Correction(
    name="exclude",
    summary="the targets' accumulated contribution leaves every layer",
    options=ExcludeOptions,
    correct=correct,
    resets_statistics=True,
    record="contributions",
)
