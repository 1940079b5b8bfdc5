"""Counting and measuring within a piece, in memory that is used again for every piece."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfedul.base.tensors import PIECE, Tensors, square_sum, wide, wide_type


@dataclass(frozen=True, eq=False)
class Scratch:
    """Room for the intermediate results of one piece, for all pieces of a layer in turn.

    Fresh memory for each of them would cost more than the arithmetic. Flags are
    NumPy's, which compares and counts several times as fast as torch.
    """

    numbers: Tensor
    flags: NDArray[np.bool_]

    @classmethod
    def like(cls, tensors: Tensors) -> Scratch:
        """For the pieces of these tensors, in the widest of their types."""
        size = min(PIECE, max((tensor.numel() for tensor in tensors.values()), default=0))
        types = (wide_type(tensor) for tensor in tensors.values())
        dtype = reduce(torch.promote_types, types, torch.float32)
        return cls(torch.empty(size, dtype=dtype), np.empty(size, np.bool_))

    def squared_distance(self, one: Tensor, other: Tensor) -> float:
        """||one - other||^2."""
        return square_sum(torch.sub(wide(one), wide(other), out=self.numbers[: one.numel()]))

    def count_from(self, numbers: Tensor, limit: float) -> int:
        """How many are at least as far from zero as the limit."""
        values, size = numbers.numpy(), numbers.numel()
        sizes, flags = self.numbers.numpy()[:size], self.flags[:size]
        np.greater_equal(np.absolute(values, out=sizes), limit, out=flags)
        return int(np.count_nonzero(flags))
