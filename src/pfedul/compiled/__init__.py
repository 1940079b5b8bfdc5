"""Passes over all numbers of a model, compiled; what else there is works without them.

Where pfedul is installed on a machine with a C compiler, `_kernels.c` is compiled on the way;
without one, nothing is missing but speed. Every use asks `fits` first and has another way in
PyTorch. Both give the same numbers up to the rounding of sums.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

try:
    from pfedul.compiled import _kernels

    COMPILED = True
except ImportError:
    COMPILED = False


def fits(*tensors: Tensor) -> bool:
    """Whether the compiled passes are here and can work on these tensors."""
    if not COMPILED:
        return False
    for tensor in tensors:  # a plan asks this of some hundred tensors: no generator
        if tensor.dtype is not torch.float32 or not (tensor.is_cpu and tensor.is_contiguous()):
            return False
    return True


def sum_of(x: Tensor) -> float:
    """The sum, in double precision."""
    return _kernels.sum(x.data_ptr(), x.numel())


def square_sum(x: Tensor) -> float:
    """The sum of squares, in double precision."""
    return _kernels.square_sum(x.data_ptr(), x.numel())


def direction_square_sum(theta: Tensor, start: Tensor, fisher: Tensor) -> float:
    """||fisher * (theta - start)||^2: the direction of Eq. 10."""
    parts = theta.data_ptr(), start.data_ptr(), fisher.data_ptr()
    return _kernels.direction_square_sum(*parts, theta.numel())


def add_clipped(
    theta: Tensor, start: Tensor, fisher: Tensor, after: Tensor, scale: float, limit: float
) -> tuple[float, int]:
    """after = theta + scale * clip(fisher * (theta - start), -limit, limit).

    Returns the squared change, and how many entries are at the limit.
    """
    parts = theta.data_ptr(), start.data_ptr(), fisher.data_ptr(), after.data_ptr()
    return _kernels.add_clipped(*parts, theta.numel(), scale, limit)


def sample_shares(own: Tensor, total: Tensor, step: int, shares: Tensor) -> int:
    """The shares own / total in every `step`th run of 16 entries; returns how many these are."""
    parts = own.data_ptr(), total.data_ptr(), own.numel()
    return _kernels.sample_shares(*parts, step, shares.data_ptr())


def last_of(shares: Tensor, count: int) -> tuple[float, int, int]:
    """The lowest of the `count` highest shares, how many of it are wanted, how many there are."""
    return _kernels.last_of(shares.data_ptr(), len(shares), count)


class Candidates:
    """Entries that might be reset, in memory of the compiled code; `count` may exceed `room`."""

    def __init__(self, room: int) -> None:
        self._memory = np.empty(room, _CANDIDATE)
        self._address = self._memory.ctypes.data
        self.room, self.count = room, 0

    def address(self, number: int) -> int:
        """Where that candidate is."""
        return self._address + number * _CANDIDATE.itemsize

    @property
    def shares(self) -> NDArray[np.float32]:
        """A copy of their shares."""
        return self._memory["share"][: self.count].copy()


_CANDIDATE = np.dtype(
    [("place", np.int64), ("share", np.float32), ("start", np.float32), ("theta", np.float32)],
    align=True,
)


def reset_above(
    own: Tensor,
    total: Tensor,
    theta: Tensor,
    start: Tensor,
    after: Tensor,
    bracket: tuple[float, float],
    candidates: Candidates,
) -> tuple[float, int, float]:
    """after = start where own / total is above the bracket, else theta.

    Entries inside the bracket become candidates; with more than there is room for, nothing
    else of this is valid. Returns the squared change, how many entries were reset, ||theta||^2.
    """
    room = candidates.address(candidates.count), candidates.room - candidates.count
    fisher = own.data_ptr(), total.data_ptr()
    weights = theta.data_ptr(), start.data_ptr(), after.data_ptr()
    square, reset, more, before = _kernels.reset_above(
        *fisher, *weights, theta.numel(), *bracket, *room
    )
    candidates.count += more
    return square, reset, before


def reset_candidates(
    candidates: Candidates, which: range, after: Tensor, cut: float, ties: int
) -> tuple[float, int, int]:
    """after = start for candidates with a share above the cut, and the first `ties` at it.

    Returns the squared change, how many entries were reset, and how many ties are left.
    """
    first = candidates.address(which.start), len(which)
    return _kernels.reset_candidates(*first, after.data_ptr(), cut, ties)
