"""The direction of Eq. 10 and the bound of Eq. 11, for the corrections that share them.

The paper leaves open what ||theta_l||_2 and d_l are taken over: here over all
tensors of the layer together, as one vector, the same for bound and direction.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pfedul.tensors import Tensors
from pfedul.unlearn.corrections.kind import Corrected


def require_clip(clip: float) -> None:
    """For `__post_init__` of options: the registry turns the ValueError into a user's sentence."""
    if not 0 < clip < math.inf:
        raise ValueError(f"clip must be a number above 0, not {clip}")


def norm(tensors: Tensors) -> float:
    """The Euclidean norm of the layer as one vector.

    >>> norm({"w": torch.tensor([3.0]), "b": torch.tensor([4.0])})
    5.0
    """
    norms = (torch.linalg.vector_norm(t, dtype=torch.float64) for t in tensors.values())
    return math.hypot(*map(float, norms))


def root_mean_square(tensors: Tensors) -> float:
    """||v||_2 / sqrt(d) of the layer as one vector."""
    return norm(tensors) / math.sqrt(max(1, entries(tensors)))


def entries(tensors: Tensors) -> int:
    """d_l."""
    return sum(tensor.numel() for tensor in tensors.values())


def direction(fisher: Tensors, shared: Tensors, initial: Tensors) -> Tensors:
    """Eq. 10: F * (theta - theta_init), element by element, in single precision or better."""
    return {
        name: (_wide(tensor) - _wide(initial[name])).mul_(fisher[name])
        for name, tensor in shared.items()
    }


def add_clipped(shared: Tensors, steps: Tensors, bound: float) -> Corrected:
    """Eq. 11: theta + clip(step, -bound, bound), element by element."""
    at_bound = sum(int((step.abs() >= bound).count_nonzero()) for step in steps.values())
    tensors = {
        name: (_wide(tensor) + steps[name].clamp(-bound, bound)).to(tensor.dtype)
        for name, tensor in shared.items()
    }
    return Corrected(tensors, at_bound / max(1, entries(shared)))


def _wide(tensor: Tensor) -> Tensor:
    """Half precision could not hold a Fisher, let alone a product with one."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
