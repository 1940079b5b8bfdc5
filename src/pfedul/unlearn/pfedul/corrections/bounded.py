"""The direction of Eq. 10 and the bound of Eq. 11, for the corrections that share them.

The paper leaves open what ||theta_l||_2 and d_l are taken over: here over all
tensors of the layer together, as one vector, the same for bound and direction.
All is done piece by piece, so that a piece is read from memory once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from pfedul.base.tensors import Tensors, empty, pieces, wide, wide_type
from pfedul.unlearn.pfedul.corrections.base import Corrected, LayerView
from pfedul.unlearn.pfedul.corrections.scratch import Scratch

Steps = Iterator[tuple[Tensor, ...]]
"""Pieces of a tensor's steps, each with the piece of theta that it belongs to."""

_LARGEST = torch.finfo(torch.float32).max


def require_clip(clip: float) -> None:
    """For `__post_init__` of options: the registry turns the ValueError into a user's sentence."""
    if not 0 < clip < math.inf:
        raise ValueError(f"clip must be a number above 0, not {clip}")


def bound_of(view: LayerView, clip: float) -> float:
    """delta_l of Eq. 11: clip * ||theta_l||_2 / sqrt(d_l)."""
    return clip * view.norm / math.sqrt(max(1, view.entries))


def empty_steps(view: LayerView) -> Tensors:
    """Room for the direction, in which the corrected tensors are then made."""
    return {name: empty(t.shape, wide_type(t)) for name, t in view.shared.items()}


def directed(view: LayerView, steps: Tensors, name: str, peak: float = 1.0) -> Steps:
    """The pieces of a tensor's steps with Eq. 10 in them: F / peak * (theta - theta_init).

    Each is filled when it is asked for, and so is in the cache for what comes next.
    """
    parts = (steps[name], view.shared[name], view.initial[name], view.target[name])
    for step, theta, start, fisher in pieces(*parts):
        torch.sub(wide(theta), wide(start), out=step)
        step.mul_(fisher if peak == 1.0 else fisher / peak)
        yield step, theta


def scale_and_limit(scale: float, bound: float) -> tuple[float, float]:
    """The scale as single precision can hold it, and the bound in the unit of the steps.

    Steps are clipped in their own unit, which saves a multiplication.
    """
    scale = max(-_LARGEST, min(scale, _LARGEST))
    if not scale:
        return scale, bound and _LARGEST
    return scale, min(bound / abs(scale), _LARGEST)


def add_clipped(
    view: LayerView, steps: Tensors, walks: dict[str, Steps], scale: float, limit: float
) -> Corrected:
    """Eq. 11: theta + scale * clip(step, -limit, limit), made in place of the steps."""
    scratch = Scratch.like(steps)
    found = {name: _clip(walk, scale, limit, scratch) for name, walk in walks.items()}
    return Corrected(
        tensors={name: steps[name].to(tensor.dtype) for name, tensor in view.shared.items()},
        changes={name: math.sqrt(square) for name, (square, _) in found.items()},
        at_bound=sum(count for _, count in found.values()) / max(1, view.entries),
        norm=view.norm,
    )


def _clip(walk: Steps, scale: float, limit: float, scratch: Scratch) -> tuple[float, int]:
    """The squared change of one tensor, and how many of its entries are at the bound."""
    squares, reached = 0.0, 0
    for step, theta in walk:
        count = scratch.count_from(step, limit)
        if count:
            step.clamp_(-limit, limit)
        torch.add(wide(theta), step, alpha=scale, out=step)
        squares += scratch.squared_distance(step.to(theta.dtype), theta)
        reached += count
    return squares, reached
