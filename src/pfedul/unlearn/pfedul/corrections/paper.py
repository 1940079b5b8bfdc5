"""The correction as printed: Eq. 9 to 11 of the paper.

theta <- theta + clip(step * I_l * F_t * (theta - theta_init), -delta_l, delta_l)
with delta_l = clip * ||theta_l||_2 / sqrt(d_l). It moves away from the initial
weights. The Fisher is that of gradients: in units of updates the squares are so
small that nothing moves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pfedul.unlearn.pfedul.corrections import one_pass
from pfedul.unlearn.pfedul.corrections.base import Corrected, Correction, LayerView
from pfedul.unlearn.pfedul.corrections.bounded import (
    add_clipped,
    bound_of,
    directed,
    empty_steps,
    require_clip,
    scale_and_limit,
)


@dataclass(frozen=True)
class PaperOptions:
    """`step`: eta_u of Eq. 9; `clip`: gamma of Eq. 11."""

    step: float = 0.1
    clip: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.step < math.inf:
            raise ValueError(f"step must be a number above 0, not {self.step}")
        require_clip(self.clip)


def correct(view: LayerView, options: PaperOptions) -> Corrected:
    """A step along the direction of Eq. 10, clipped entry by entry."""
    bound = bound_of(view, options.clip)
    scale, limit = scale_and_limit(options.step * view.score * view.unit, bound)
    if one_pass.fits(view):
        return one_pass.add_clipped(view, scale, limit)
    steps = empty_steps(view)
    walks = {name: directed(view, steps, name) for name in steps}
    return add_clipped(view, steps, walks, scale, limit)


PAPER = Correction(
    name="paper",
    summary="the printed rule: a small step away from the initial weights, clipped",
    options=PaperOptions,
    correct=correct,
    g="gradient",
)
