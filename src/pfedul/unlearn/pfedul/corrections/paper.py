"""The correction as printed: Eq. 9 to 11 of the paper.

theta <- theta + clip(step * I_l * F_t * (theta - theta_init), -delta_l, delta_l)
with delta_l = clip * ||theta_l||_2 / sqrt(d_l). It moves away from the initial
weights. The Fisher is that of gradients: squared updates are so small that nothing
would move.
"""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.base.options import option
from pfedul.unlearn.pfedul.corrections.base import (
    Corrected,
    Correction,
    LayerView,
    add_clipped,
    bound_of,
)


@dataclass(frozen=True)
class PaperOptions:
    """The step size of Eq. 9 and the bound of Eq. 11."""

    step: float = option(0.1, "step size, eta_u of Eq. 9", above=0)
    clip: float = option(0.01, "bound relative to the layer, gamma of Eq. 11", above=0)


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
    caveat="in our audits this rule forgot nothing that an attack can see, not even with every "
    "entry at its bound (docs/results.md)",
)
