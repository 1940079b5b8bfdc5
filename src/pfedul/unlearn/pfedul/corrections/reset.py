"""Our own: reset the entries of a layer with the target's highest shares to their initial values.

An entry's share is F_t / sum_i F_i (Eq. 6 for one entry). In a layer, taken as one
vector, the fraction q_l = min(1, fraction * I_l / mean I) with the highest shares is
reset. Entries with a share of 0 are never reset, however large the fraction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pfedul.base.options import option
from pfedul.base.tensors import wide
from pfedul.unlearn.pfedul.corrections.base import Corrected, Correction, LayerView


@dataclass(frozen=True)
class ResetOptions:
    """How much of a layer is reset."""

    fraction: float = option(
        0.2, "fraction of the entries of a layer with the mean score", above=0, at_most=1
    )


def correct(view: LayerView, options: ResetOptions) -> Corrected:
    """Initial values where the share is highest, the layer's own bits everywhere else."""
    fraction = options.fraction * view.score / view.mean if view.mean else 0.0
    count = round(min(1.0, fraction) * view.entries)
    if not count:
        return Corrected.of(view, view.shared, at_bound=0)
    chosen = highest(_shares(view), count)
    masks = torch.split(chosen, [theta.numel() for theta in view.shared.values()])
    tensors = {
        name: torch.where(mask.view(theta.shape), view.initial[name].to(theta.dtype), theta)
        for mask, (name, theta) in zip(masks, view.shared.items(), strict=True)
    }
    return Corrected.of(view, tensors, int(chosen.sum()))


def _shares(view: LayerView) -> Tensor:
    """F_t / sum_i F_i of all entries: 0 where both are 0, 1 where only the sum is."""
    shares = [(wide(view.target[name]) / view.total[name]).flatten() for name in view.shared]
    return torch.cat(shares).nan_to_num_(nan=0.0, posinf=1.0)


def highest(shares: Tensor, count: int) -> Tensor:
    """Flags of the `count` highest shares, the first of equal ones first; never one of 0."""
    last = float(np.partition(shares.numpy(), -count)[-count])
    chosen = shares > last
    if last > 0:
        ties = (shares == last).nonzero().flatten()
        chosen[ties[: count - int(chosen.sum())]] = True
    return chosen


RESET = Correction(
    name="reset",
    summary="the entries that are most the target's return to their initial values",
    options=ResetOptions,
    correct=correct,
    resets_statistics=True,
)
