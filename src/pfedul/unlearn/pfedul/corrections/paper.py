"""The correction as printed: Eq. 9 to 11 of the paper.

theta <- theta + clip(step * I_l * F_t * (theta - theta_init), -delta_l, delta_l)
with delta_l = clip * ||theta_l||_2 / sqrt(d_l). It moves away from the initial
weights. The Fisher is that of gradients: in units of updates the squares are so
small that nothing moves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pfedul.unlearn.pfedul.corrections.base import Corrected, Correction, LayerView
from pfedul.unlearn.pfedul.corrections.bounded import add_clipped, bound_of, require_clip


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
    scale = options.step * view.score * view.unit
    return add_clipped(view, scale, bound_of(view, options.clip))


PAPER = Correction(
    name="paper",
    summary="the printed rule: a small step away from the initial weights, clipped",
    options=PaperOptions,
    correct=correct,
    g="gradient",
)
