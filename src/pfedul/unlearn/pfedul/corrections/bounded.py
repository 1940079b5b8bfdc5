"""The direction of Eq. 10 and the bound of Eq. 11, for the corrections that share them.

The paper leaves open what ||theta_l||_2 and d_l are taken over: here over all
tensors of the layer together, as one vector, for bound and direction alike.
Double precision holds every product of a Fisher, a weight and a scale.
"""

from __future__ import annotations

import math

from torch import Tensor

from pfedul.base.tensors import Tensors
from pfedul.unlearn.pfedul.corrections.base import Corrected, LayerView


def bound_of(view: LayerView, clip: float) -> float:
    """delta_l of Eq. 11: clip * ||theta_l||_2 / sqrt(d_l)."""
    return clip * view.norm / math.sqrt(max(1, view.entries))


def direction(view: LayerView, name: str) -> Tensor:
    """Eq. 10 for one tensor, in double precision: F_t * (theta - theta_init)."""
    return (view.shared[name].double() - view.initial[name]).mul_(view.target[name])


def add_clipped(view: LayerView, scale: float, bound: float) -> Corrected:
    """Eq. 11: theta + clip(scale * direction, -bound, bound)."""
    after: Tensors = {}
    at_bound = 0
    for name, theta in view.shared.items():
        step = direction(view, name).mul_(scale)
        at_bound += int((step.abs() >= bound).sum())
        after[name] = step.clamp_(-bound, bound).add_(theta).to(theta.dtype)
    return Corrected.of(view, after, at_bound)
