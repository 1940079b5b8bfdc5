"""Named tensors: how they are read out of a model and put back into it.

Parameters and buffers are treated alike, so nothing that a client left in a
model object (running statistics above all) can reach the next client.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Tensors = dict[str, Tensor]


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


def wide(tensor: Tensor) -> Tensor:
    """The tensor in single precision or better; the same object if it is already."""
    return tensor.to(wide_type(tensor))


def wide_type(tensor: Tensor) -> torch.dtype:
    """Half precision could not hold a Fisher, let alone a product with one."""
    return torch.promote_types(tensor.dtype, torch.float32)


def flat_array(tensor: Tensor) -> NDArray[Any]:
    """The numbers as a NumPy vector, in single precision or better, without a copy if possible.

    NumPy sums them in double precision on one thread and without a copy, so the last bits
    do not depend on the number of threads.
    """
    array: NDArray[Any] = wide(tensor).detach().cpu().reshape(-1).numpy()
    return array


def square_sum(tensor: Tensor) -> float:
    """The sum of squares, in double precision."""
    flat = flat_array(tensor)
    return float(np.einsum("i,i->", flat, flat, dtype=np.float64))


def norm(tensors: Tensors) -> float:
    """The Euclidean norm of all the tensors as one vector.

    >>> norm({"w": torch.tensor([3.0]), "b": torch.tensor([4.0])})
    5.0
    """
    return math.sqrt(sum(map(square_sum, tensors.values())))


def same_tensors(one: Tensors, other: Tensors) -> bool:
    """Whether all tensors of `one` are in `other` with the same values.

    >>> same_tensors({"a": torch.ones(2)}, {"a": torch.ones(2), "b": torch.zeros(1)})
    True
    """
    return all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def same_weights(one: Tensors, other: Tensors) -> bool:
    """The same for parameters and statistics: integer tensors are counters and do not count.

    >>> same_weights({"a": torch.ones(2), "n": torch.tensor(1)}, {"a": torch.ones(2)})
    True
    """
    return same_tensors({n: t for n, t in one.items() if t.is_floating_point()}, other)


def packed(**parts: Tensors) -> Tensors:
    """Several dictionaries of tensors as one, for notes and messages.

    >>> packed(a={"w": 1}, b={"w": 2})
    {'a/w': 1, 'b/w': 2}
    """
    return {f"{part}/{name}": t for part, tensors in parts.items() for name, t in tensors.items()}


def part_of(tensors: Tensors, part: str) -> Tensors:
    """Copies of one part, under its own names.

    Copies, because the last bit of what is computed depends on where in memory a tensor
    begins, and that differs between messages, notes and tensors that were just made.
    """
    start = f"{part}/"
    own = {name: tensor for name, tensor in tensors.items() if name.startswith(start)}
    return {name.removeprefix(start): tensor.clone() for name, tensor in own.items()}
