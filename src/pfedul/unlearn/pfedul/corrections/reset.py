"""Ours: the entries of a layer that are most the target's return to their initial values.

An entry's share is F_t / sum_i F_i (after Eq. 6, element by element). Of a
layer, taken as one vector, the fraction q_l = min(1, fraction * I_l / mean I)
with the highest shares is reset. What the target has no share in is never
reset, however large the fraction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pfedul.base.tensors import empty, pieces, wide_type
from pfedul.unlearn.pfedul.corrections import one_pass
from pfedul.unlearn.pfedul.corrections.base import Corrected, Correction, LayerView
from pfedul.unlearn.pfedul.corrections.scratch import Scratch
from pfedul.unlearn.pfedul.corrections.shares import Cut, Flags, cut


@dataclass(frozen=True)
class ResetOptions:
    """`fraction`: of the entries of a layer with a mean score that are reset."""

    fraction: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise ValueError(f"fraction must be above 0 and at most 1, not {self.fraction}")


def correct(view: LayerView, options: ResetOptions) -> Corrected:
    """Initial values where the share is highest, the layer's own bits everywhere else."""
    fraction = options.fraction * view.score / view.mean if view.mean else 0.0
    count = round(min(1.0, fraction) * view.entries)
    if count and one_pass.fits(view) and (found := one_pass.reset_highest(view, count)):
        return found
    return _piece_by_piece(view, count)


def _piece_by_piece(view: LayerView, count: int) -> Corrected:
    scratch = Scratch.like(view.shared)
    shares = {name: empty(t.shape, wide_type(t)) for name, t in view.shared.items()}
    taken = cut(view.target, view.total, count, shares)
    found = {name: _reset(view, name, shares[name], taken, scratch) for name in view.shared}
    return Corrected(
        tensors={name: after for name, (after, _, _) in found.items()},
        changes={name: math.sqrt(square) for name, (_, square, _) in found.items()},
        at_bound=sum(count for _, _, count in found.values()) / max(1, view.entries),
        norm=view.norm,
    )


def _reset(
    view: LayerView, name: str, shares: Tensor, taken: Cut, scratch: Scratch
) -> tuple[Tensor, float, int]:
    """The tensor with what the cut takes reset, the squared change, and how many those are.

    It is made in place of its shares, which are no longer needed, if it has room there.
    """
    shared, square, count = view.shared[name], 0.0, 0
    after = shares if shares.dtype == shared.dtype else empty(shared.shape, shared.dtype)
    for share, theta, start, into in pieces(shares, shared, view.initial[name], after):
        flags = scratch.flags[: theta.numel()]
        count += taken.mark(share, flags)
        _choose(flags, start.to(theta.dtype), theta, into)
        square += scratch.squared_distance(into, theta)
    return after, square, count


def _choose(flags: Flags, one: Tensor, other: Tensor, into: Tensor) -> None:
    """Into each place the bits of `one` where the flag is set, else of `other`.

    Without a branch for every entry, as `torch.where` has one: with flags that
    follow no pattern it takes several times as long.
    """
    bits = _BITS[into.element_size()]
    changed = torch.bitwise_xor(one.view(bits), other.view(bits), out=into.view(bits))
    changed.mul_(torch.from_numpy(flags)).bitwise_xor_(other.view(bits))


_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


RESET = Correction(
    name="reset",
    summary="the entries that are most the target's return to their initial values",
    options=ResetOptions,
    correct=correct,
    resets_statistics=True,
)
