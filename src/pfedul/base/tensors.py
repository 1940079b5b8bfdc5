"""Named tensors: how they are read out of a model and put back into it.

Parameters and buffers are treated alike, so nothing that a client left in a
model object (running statistics above all) can reach the next client.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterable, Iterator
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor, nn

from pfedul import compiled

Tensors = dict[str, Tensor]

PIECE = 1 << 18
"""Entries that are worked on at a time: few enough for the cache, enough to hide a call's cost."""


def read_tensors(model: nn.Module, names: Iterable[str]) -> Tensors:
    """Copies of these entries of the model's state."""
    state = model.state_dict()
    return {
        name: state[name].detach().clone(memory_format=torch.contiguous_format) for name in names
    }


@torch.no_grad()
def load_tensors(model: nn.Module, *parts: Tensors) -> None:
    """Write tensors into the model in place; where names meet, the later part wins."""
    state = model.state_dict()
    for part in parts:
        for name, tensor in part.items():
            state[name].copy_(tensor)


def size_in_bytes(tensors: Tensors) -> int:
    """What the tensors hold, without any header.

    >>> size_in_bytes({"w": torch.zeros(3), "n": torch.zeros((), dtype=torch.int64)})
    20
    """
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def pieces(*tensors: Tensor, size: int = PIECE) -> Iterator[tuple[Tensor, ...]]:
    """The same stretches of tensors of one shape, as flat views, `size` entries at most.

    What is done with a stretch before the next is asked for finds it in the
    cache. Only of contiguous tensors are the pieces views that can be written to.

    >>> [[part.tolist() for part in piece] for piece in pieces(torch.arange(3), size=2)]
    [[[0, 1]], [[2]]]
    """
    flat = [tensor.detach().reshape(-1) for tensor in tensors]
    if flat[0].numel() <= size:  # most tensors of a model are small, and a split costs time
        return iter([tuple(flat)])
    return zip(*(torch.split(whole, size) for whole in flat), strict=True)


def empty(shape: torch.Size, dtype: torch.dtype) -> Tensor:
    """Room for a tensor, in large pages of memory where it is large and they can be had.

    The first touch of an ordinary page of 4 kB takes several times as long as
    adding two numbers for every place in it.
    """
    count = shape.numel()
    size = count * dtype.itemsize
    if size < _LARGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(shape, dtype=dtype)
    whole = -(-size // _LARGE_PAGE) * _LARGE_PAGE  # else the kernel may not begin at such a page
    memory = mmap.mmap(-1, whole, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without large pages has ordinary ones
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=dtype, count=count).view(shape)


_LARGE_PAGE = 1 << 21


def wide(tensor: Tensor) -> Tensor:
    """In single precision or better, and the very same tensor if it is already."""
    return tensor if tensor.dtype in _WIDE else tensor.to(wide_type(tensor))


_WIDE = (torch.float32, torch.float64)


def wide_type(tensor: Tensor) -> torch.dtype:
    """Half precision could not hold a Fisher, let alone a product with one."""
    return torch.promote_types(tensor.dtype, torch.float32)


def sum_of(piece: Tensor) -> float:
    """The sum, in double precision if single precision cannot hold it."""
    total = float(piece.sum())
    return total if math.isfinite(total) else float(piece.sum(dtype=torch.float64))


def square_sum(piece: Tensor) -> float:
    """The sum of squares, in double precision if they leave the range of single precision.

    Products of vectors need no memory for the squares. They are of short rows: of
    long ones the error grows with the length, and the last bits depend on where in
    memory they lie and on the number of threads.
    """
    flat = piece.numpy()
    whole = flat.size // _ROW * _ROW
    rows, rest = flat[:whole].reshape(-1, _ROW), flat[whole:]
    with np.errstate(over="ignore"):
        total = float(np.vecdot(rest, rest))
        if whole:
            total += float(np.vecdot(rows, rows).sum(dtype=np.float64))
    return total if 1e-25 < total < math.inf else _exact_square_sum(piece)


_ROW = 1024


def _exact_square_sum(piece: Tensor) -> float:
    exact = piece.to(torch.float64)
    return float(torch.dot(exact, exact))


def norm(tensors: Tensors) -> float:
    """The Euclidean norm of all the tensors as one vector.

    >>> norm({"w": torch.tensor([3.0]), "b": torch.tensor([4.0])})
    5.0
    """
    if compiled.fits(*tensors.values()):
        return math.sqrt(sum(map(compiled.square_sum, tensors.values())))
    parts = (part for tensor in tensors.values() for (part,) in pieces(tensor))
    return math.sqrt(sum(square_sum(wide(part)) for part in parts))
