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

from pfedul.tensors import Tensors, pieces
from pfedul.unlearn.corrections.scratch import Scratch

Flags = NDArray[np.bool_]
Shares = NDArray[np.floating[Any]]

SAMPLE = 1 << 13
"""About as many shares are in a sample."""

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


def cut(target: Tensors, total: Tensors, count: int, scratch: Scratch) -> Cut:
    """What takes the `count` highest shares of all these tensors, but never one of 0."""
    if count == 0:
        return Cut(math.inf)
    low, high = _bracket(target, total, count)
    above, inside = _sort_out(target, total, low, high, scratch)
    if above >= count or (low > 0 and above + len(inside) < count):
        above, inside = _sort_out(target, total, 0.0, math.inf, scratch)
    return _cut_among(inside, count - above)


def share(target: Tensor, total: Tensor, out: Tensor) -> Tensor:
    """0 for entries that are nobody's, 1 for those that are nobody else's by the record."""
    return torch.div(target, total, out=out).nan_to_num_(nan=0.0, posinf=1.0)


def _sort_out(
    target: Tensors, total: Tensors, low: float, high: float, scratch: Scratch
) -> tuple[int, Shares]:
    """How many shares are above `high`, and those which are not but are above `low`."""
    above, inside, higher = 0, [], np.empty_like(scratch.flags)
    walks = (pieces(own, total[name]) for name, own in target.items())
    for own, everyone in (part for walk in walks for part in walk):
        size = len(own)
        values, over = share(own, everyone, scratch.numbers[:size]).numpy(), higher[:size]
        above += int(np.count_nonzero(np.greater(values, high, out=over)))
        between = np.greater(values, low, out=scratch.flags[:size])
        inside.append(values[np.flatnonzero(np.bitwise_xor(between, over, out=between))])
    return above, np.concatenate(inside)


def _cut_among(shares: Shares, count: int) -> Cut:
    """The cut that takes the `count` highest of these shares, or all of them if they are fewer."""
    if count > len(shares):
        return Cut(0.0)
    last = _highest(shares, count)
    ties = count - int(np.count_nonzero(shares > last))
    if ties == np.count_nonzero(shares == last):
        return Cut(_just_below(last))
    return Cut(float(last), ties)


def _bracket(target: Tensors, total: Tensors, count: int) -> tuple[float, float]:
    """Four standard errors, and a run, to each side of the quantile of a sample."""
    entries = sum(tensor.numel() for tensor in target.values())
    step = max(1, entries // SAMPLE)
    sample = np.concatenate([_runs(own, total[name], step) for name, own in target.items()])
    fraction, size = count / entries, len(sample)
    margin = _RUN + 4 * math.sqrt(size * fraction * (1 - fraction))
    first, last = math.floor(fraction * size - margin), math.ceil(fraction * size + margin)
    low = _just_below(_highest(sample, last)) if last <= size else 0.0
    return low, float(_highest(sample, first)) if first >= 1 else math.inf


def _runs(target: Tensor, total: Tensor, step: int) -> Shares:
    """The shares in every `step`th run of the entries."""
    own, everyone = (tensor.detach().reshape(-1) for tensor in (target, total))
    whole = len(own) // _RUN * _RUN
    own, everyone = (flat[:whole].view(-1, _RUN)[::step] for flat in (own, everyone))
    room = torch.empty(own.shape, dtype=torch.result_type(own, everyone))
    return share(own, everyone, room).flatten().numpy()


def _highest(values: Shares, rank: int) -> Any:
    """The lowest of the `rank` highest values."""
    return np.partition(values, -rank)[-rank]


def _just_below(value: Any) -> float:
    """The next lower number of its type, so that `above` it means from `value` on; 0 stays 0."""
    return float(np.nextafter(value, np.zeros_like(value)))
