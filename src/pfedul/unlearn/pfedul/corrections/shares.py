"""Which entries of a layer have the highest shares F_t / sum_i F_i, without sorting them all.

A sample says between which two shares the last one to be taken must be. Those
above that bracket only need to be counted, and only the few inside it put in
order. Should the sample mislead, all shares are put in order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfedul import compiled
from pfedul.base.tensors import Tensors, pieces

Flags = NDArray[np.bool_]
Shares = NDArray[np.floating[Any]]

_RUN = 16
"""They are drawn in runs of a cache line, as memory hands over no less at a time."""


@dataclass
class Cut:
    """Shares above `above` are taken, and the first `ties` of those that are equal to it."""

    above: float
    ties: int = 0

    def mark(self, shares: Tensor, flags: Flags) -> int:
        """Set the flags of what is taken of the next piece; returns how many these are."""
        values = shares.numpy()
        np.greater(values, self.above, out=flags)
        if self.ties:
            first = np.flatnonzero(values == self.above)[: self.ties]
            flags[first] = True
            self.ties -= len(first)
        return int(np.count_nonzero(flags))


def cut(target: Tensors, total: Tensors, count: int, shares: Tensors) -> Cut:
    """What takes the `count` highest shares, but never one of 0; they are left in `shares`."""
    if count == 0:
        return Cut(math.inf)
    low, high = bracket_of(target, total, count)
    walks = (pieces(own, total[name], shares[name]) for name, own in target.items())
    found = [_sorted_out(share(*piece).numpy(), low, high) for walk in walks for piece in walk]
    above, inside = sum(number for number, _ in found), np.concatenate([some for _, some in found])
    if above >= count or (low > 0 and above + len(inside) < count):
        above, inside = 0, _above_zero(shares)
    return cut_among(inside, count - above)


def share(target: Tensor, total: Tensor, out: Tensor) -> Tensor:
    """0 for entries that are nobody's, 1 for those that are nobody else's by the record."""
    return torch.div(target, total, out=out).nan_to_num_(nan=0.0, posinf=1.0)


def _sorted_out(shares: Shares, low: float, high: float) -> tuple[int, Shares]:
    """How many shares are above `high`, and those which are not but are above `low`."""
    higher = shares > high
    return int(np.count_nonzero(higher)), shares[np.flatnonzero(higher != (shares > low))]


def _above_zero(shares: Tensors) -> Shares:
    walks = (pieces(tensor) for tensor in shares.values())
    return np.concatenate([part[part > 0].numpy() for walk in walks for (part,) in walk])


def cut_among(shares: Shares, count: int) -> Cut:
    """The cut that takes the `count` highest of these shares, or all of them if they are fewer."""
    if count > len(shares):
        return Cut(0.0)
    last, ties, equal = _last_of(shares, count)
    return Cut(_just_below(last)) if ties == equal else Cut(float(last), ties)


def bracket_of(target: Tensors, total: Tensors, count: int) -> tuple[float, float]:
    """Three standard errors, and a run, to each side of the quantile of a sample.

    A step that grows with the cube root of the entries keeps both short: drawing the
    sample, and putting in order what is inside the bracket.
    """
    entries = sum(tensor.numel() for tensor in target.values())
    sample = _sample(target, total, step=max(1, round(entries ** (1 / 3) / 4)))
    fraction, size = count / entries, len(sample)
    margin = _RUN + 3 * math.sqrt(size * fraction * (1 - fraction))
    first, last = math.floor(fraction * size - margin), math.ceil(fraction * size + margin)
    low = _just_below(_last_of(sample, last)[0]) if last <= size else 0.0
    return low, float(_last_of(sample, first)[0]) if first >= 1 else math.inf


def _sample(target: Tensors, total: Tensors, step: int) -> Shares:
    """The shares in every `step`th run of the entries of each tensor."""
    if not compiled.fits(*target.values(), *total.values()):
        return np.concatenate([_runs(own, total[name], step) for name, own in target.items()])
    size = sum(_RUN * (1 + own.numel() // (_RUN * step)) for own in target.values())
    sample, drawn = torch.empty(size), 0
    for name, own in target.items():
        drawn += compiled.sample_shares(own, total[name], step, sample[drawn:])
    return sample[:drawn].numpy()


def _runs(target: Tensor, total: Tensor, step: int) -> Shares:
    own, everyone = (tensor.detach().reshape(-1) for tensor in (target, total))
    whole = len(own) // _RUN * _RUN
    own, everyone = (flat[:whole].view(-1, _RUN)[::step] for flat in (own, everyone))
    room = torch.empty(own.shape, dtype=torch.result_type(own, everyone))
    return share(own, everyone, room).flatten().numpy()


def _last_of(shares: Shares, count: int) -> tuple[Any, int, int]:
    """The lowest of the `count` highest shares, how many of it are wanted, how many there are."""
    values = torch.from_numpy(shares)
    if compiled.fits(values):
        last, wanted, equal = compiled.last_of(values, count)
        return np.float32(last), wanted, equal
    highest = np.partition(shares, -count)[-count:]
    last = highest[0]
    return last, int(np.count_nonzero(highest == last)), int(np.count_nonzero(shares == last))


def _just_below(value: Any) -> float:
    """The next lower number of its type, so that `above` it means from `value` on; 0 stays 0."""
    return float(np.nextafter(value, type(value)(0)))
