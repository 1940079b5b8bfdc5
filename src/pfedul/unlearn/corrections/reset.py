"""Ours: the entries of a layer that are most the target's return to their initial values.

An entry's share is F_t / sum_i F_i (after Eq. 6, element by element). Of a
layer, taken as one vector, the fraction q_l = min(1, fraction * I_l / mean I)
with the highest shares is reset. What the target has no share in is never
reset, however large the fraction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pfedul.unlearn.corrections.bounded import entries
from pfedul.unlearn.corrections.kind import Corrected, Correction, LayerView


@dataclass(frozen=True)
class ResetOptions:
    """`fraction`: of the entries of a layer with a mean score that are reset."""

    fraction: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise ValueError(f"fraction must be above 0 and at most 1, not {self.fraction}")


def correct(view: LayerView, options: ResetOptions) -> Corrected:
    """Initial values where the share is highest, the layer's own bits everywhere else."""
    shares = torch.cat([_shares(view, name) for name in view.shared])
    fraction = options.fraction * view.score / view.mean if view.mean else 0.0
    mask = highest(shares, round(min(1.0, fraction) * len(shares)))
    parts = torch.split(mask, [tensor.numel() for tensor in view.shared.values()])
    tensors = {
        name: torch.where(part.view(tensor.shape), view.initial[name].to(tensor.dtype), tensor)
        for (name, tensor), part in zip(view.shared.items(), parts, strict=True)
    }
    return Corrected(tensors, int(mask.count_nonzero()) / max(1, entries(view.shared)))


def _shares(view: LayerView, name: str) -> Tensor:
    shares = view.target[name] / view.total[name]
    return shares.nan_to_num_(nan=0.0, posinf=1.0).flatten()


def highest(values: Tensor, count: int) -> Tensor:
    """A mask of the `count` highest values above 0; of equal ones the first are taken.

    >>> highest(torch.tensor([0.5, 0.0, 0.5, 0.9]), 2).tolist()
    [True, False, False, True]
    """
    if count == 0:
        return torch.zeros_like(values, dtype=torch.bool)
    # By the lowest value that still counts: a sort with a fixed order of equals is far slower.
    last = float(np.partition(values.numpy(force=True), -count)[-count])
    mask = values > max(last, 0.0)
    if last > 0:
        equals = (values == last).nonzero().flatten()
        mask[equals[: count - int(mask.count_nonzero())]] = True
    return mask


RESET = Correction(
    name="reset",
    summary="the entries that are most the target's return to their initial values",
    options=ResetOptions,
    correct=correct,
    resets_statistics=True,
)
