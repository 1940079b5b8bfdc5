"""Adapters: a few trained values that change a frozen tensor, along directions that a seed fixes.

`sparse`: some entries of the tensor, drawn once for all clients, each with a value of its
own. `lora`: a product B A of two narrow matrices (a convolution is the matrix out x rest),
of which A is drawn once for all clients and only B is trained. In both the change is
linear in the values. So the mean of clients' values is the mean of their changes: masks
do not densify, and the mean of factors is the mean of products, which it is not where
both factors are trained (Sun et al., ICLR 2024, FFA-LoRA).

An adapter can be dropped again, to the last bit, if the frozen tensors are kept:
adding and subtracting again would not give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from pfedul.base.randomness import derive_seed
from pfedul.base.tensors import Tensors


@dataclass(frozen=True)
class AdapterKind:
    """What all clients must agree on: the kind, its size and the seed of its directions."""

    adapter: str = "sparse"
    density: float = 0.05
    rank: int = 16
    scale: float = 2.0
    seed: int = 0


Added = Callable[[AdapterKind, str, Tensor, Tensor], Tensor]


def mask_positions(kind: AdapterKind, name: str, tensor: Tensor) -> Tensor:
    """The places of a tensor, in rising order, that its adapter may change.

    >>> mask_positions(AdapterKind(density=0.5), "w", torch.zeros(2, 3)).numel()
    3
    """
    count = max(1, round(kind.density * tensor.numel()))
    order = torch.randperm(tensor.numel(), generator=_stream(kind, name), device="cpu")
    places: Tensor = order[:count].sort().values.to(tensor.device)
    return places


def fixed_factor(kind: AdapterKind, name: str, tensor: Tensor) -> Tensor:
    """LoRA's A: uniform within 1 / sqrt(columns), as is usual for it."""
    columns = tensor[0].numel()
    stream = _stream(kind, name)
    drawn = torch.rand(_rank(kind, tensor), columns, generator=stream, device="cpu")
    factor: Tensor = (2 * drawn - 1) / math.sqrt(columns)
    return factor.to(tensor)


def no_values(kind: AdapterKind, name: str, tensor: Tensor) -> Tensor:
    """Values that change nothing: where training begins."""
    if kind.adapter == "sparse":
        return tensor.new_zeros(len(mask_positions(kind, name, tensor)))
    return tensor.new_zeros(len(tensor), _rank(kind, tensor))


def _add_sparse(kind: AdapterKind, name: str, tensor: Tensor, values: Tensor) -> Tensor:
    places = mask_positions(kind, name, tensor)
    return tensor.flatten().index_add(0, places, values).view_as(tensor)


def _add_lora(kind: AdapterKind, name: str, tensor: Tensor, values: Tensor) -> Tensor:
    product = values @ fixed_factor(kind, name, tensor)
    return tensor + kind.scale * product.view_as(tensor)


def _rank(kind: AdapterKind, tensor: Tensor) -> int:
    return min(kind.rank, len(tensor), tensor[0].numel())


def _stream(kind: AdapterKind, name: str) -> torch.Generator:
    return torch.Generator().manual_seed(derive_seed(kind.seed, "adapter", name))


ADAPTERS: dict[str, Added] = {"sparse": _add_sparse, "lora": _add_lora}
"""Kind -> (kind, name, frozen tensor, values) -> the tensor with the adapter added."""


@dataclass(frozen=True)
class Adapter:
    """Trained values for some tensors, by name."""

    kind: AdapterKind
    values: Mapping[str, Tensor]


@dataclass(frozen=True)
class Adapted:
    """Frozen tensors, the adapter next to them, and both in one."""

    frozen: Tensors
    adapter: Adapter
    merged: Tensors


def with_values(frozen: Tensors, adapter: Adapter) -> Tensors:
    """The changed tensors alone; gradients pass to the values."""
    add = ADAPTERS[adapter.kind.adapter]
    return {
        name: add(adapter.kind, name, frozen[name], values)
        for name, values in adapter.values.items()
    }


def apply_adapter(frozen: Tensors, adapter: Adapter) -> Adapted:
    """Tensors with an adapter; `merged` is what a model is given.

    >>> adapter = Adapter(AdapterKind(density=1.0), {"w": torch.tensor([0.5, 0.0])})
    >>> adapted = apply_adapter({"w": torch.ones(1, 2)}, adapter)
    >>> adapted.merged["w"], drop_adapter(adapted)["w"]
    (tensor([[1.5000, 1.0000]]), tensor([[1., 1.]]))
    """
    return Adapted(frozen, adapter, {**frozen, **with_values(frozen, adapter)})


def drop_adapter(adapted: Adapted) -> Tensors:
    """The tensors as they were before, bit for bit."""
    return adapted.frozen
