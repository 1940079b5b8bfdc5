"""Several dictionaries of tensors as one, for notes and messages, and back."""

from __future__ import annotations

from pfedul.base.tensors import Tensors


def packed(**parts: Tensors) -> Tensors:
    """
    >>> packed(a={"w": 1}, b={"w": 2})
    {'a/w': 1, 'b/w': 2}
    """
    return {f"{part}/{name}": t for part, tensors in parts.items() for name, t in tensors.items()}


def part_of(tensors: Tensors, part: str) -> Tensors:
    """Copies of one part, under its own names.

    Copies, because the last bit of what is computed depends on where in memory a tensor
    begins, and that differs between messages, notes and tensors that were just made.
    """
    start, found = f"{part}/", {}
    for name, tensor in tensors.items():
        if name.startswith(start):
            found[name.removeprefix(start)] = tensor.clone()
    return found
