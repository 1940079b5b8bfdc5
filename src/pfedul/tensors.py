"""Named tensors: how they are read out of a model and put back into it.

Parameters and buffers are treated alike, so nothing that a client left in a
model object (running statistics above all) can reach the next client.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
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
