"""What a correction is, what it sees of a layer, and what it gives back.

Two corrections share the direction of Eq. 10 and the bound of Eq. 11. The paper leaves open what
||theta_l||_2 and d_l are taken over: here over all tensors of the layer together, as one vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from torch import Tensor

from pfedul.base.tensors import Tensors, norm, square_sum


@dataclass(frozen=True, eq=False)
class LayerView:
    """One chosen layer: four parts with the same tensor names, each taken as one vector.

    `target` is the summed Fisher of the targets and `total` that of all clients present;
    `unit` times them is the Fisher that the correction needs. `score` is the layer's I_l
    or what an ablation puts in its place; `largest` and `mean` are over all layers.
    `without` is the layer without the targets' contributions, for corrections that read that
    record; they are given no Fisher.
    """

    shared: Tensors
    initial: Tensors = field(default_factory=dict)
    target: Tensors = field(default_factory=dict)
    total: Tensors = field(default_factory=dict)
    score: float = 0.0
    largest: float = 0.0
    mean: float = 0.0
    unit: float = 1.0
    without: Tensors = field(default_factory=dict)

    @cached_property
    def norm(self) -> float:
        """||theta_l||_2, over all tensors of the layer as one vector."""
        return norm(self.shared)

    @cached_property
    def entries(self) -> int:
        """d_l."""
        return sum(tensor.numel() for tensor in self.shared.values())


@dataclass(frozen=True, eq=False)
class Corrected:
    """The layer's tensors after the correction.

    `changes` has each tensor's Euclidean norm of the change, after rounding; `norm` is
    that of the layer before. `at_bound` is the share of entries that changed as much as
    the correction allows.
    """

    tensors: Tensors
    changes: dict[str, float]
    at_bound: float
    norm: float

    @classmethod
    def of(cls, view: LayerView, tensors: Tensors, at_bound: int) -> Corrected:
        """Measure the changes; `at_bound` entries are at the bound."""
        changes = {
            name: math.sqrt(square_sum(tensors[name].double() - theta))
            for name, theta in view.shared.items()
        }
        return cls(tensors, changes, at_bound / max(1, view.entries), view.norm)


@dataclass(frozen=True)
class Correction:
    """A way to take the targets out of a layer.

    `g` is the unit of its Fisher: of updates, or of gradients (updates divided by the
    learning rate). `resets_statistics`: shared normalisation statistics no longer fit
    afterwards and must be estimated again. `record` is what it reads; one that reads
    contributions corrects every layer, and no layer is chosen. `caveat` is what audits found of
    it that a user must know: a note on every plan.
    """

    name: str
    summary: str
    options: type[Any]
    correct: Callable[[LayerView, Any], Corrected]
    resets_statistics: bool = False
    g: Literal["update", "gradient"] = "update"
    record: Literal["fisher", "contributions"] = "fisher"
    caveat: str = ""


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
