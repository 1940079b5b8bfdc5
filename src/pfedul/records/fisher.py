"""The running Fisher of each client: Eq. 5 of the paper, and noise on it (Section 5.2 (a)).

F <- beta*F + (1 - beta)*g^2, from zero, where g is the client's update (global minus local), in the
rounds in which the client took part. The paper also calls g a gradient; the update divided by the
learning rate is one, up to a factor that no score depends on. As in the paper the start from zero
is not corrected for, so a client that took part in few rounds has a small Fisher.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import torch
from torch import Generator, Size, Tensor

from pfedul.base.tensors import Tensors, size_in_bytes
from pfedul.errors import PfedulError
from pfedul.split import Layer


class FisherSource(Protocol):
    """Where the Fisher of each client is kept; tensors read from it must not be changed."""

    @property
    def clients(self) -> Sequence[str]:
        """The clients present, without forgotten ones."""
        ...

    def of(self, client: str) -> Tensors:
        """The Fisher of one client."""
        ...

    def total(self) -> Tensors:
        """The element-wise sum over all clients present."""
        ...


@torch.no_grad()
def updated_fisher(before: Tensors | None, update: Tensors, beta: float) -> Tensors:
    """The Fisher after one more update of its client; None stands for no update so far.

    >>> updated_fisher(None, {"w": torch.tensor([4.0])}, beta=0.75)
    {'w': tensor([4.])}
    """
    return blended(before, {name: t.float().square() for name, t in update.items()}, beta)


@torch.no_grad()
def blended(before: Tensors | None, squares: Tensors, beta: float) -> Tensors:
    """beta * before + (1 - beta) * squares; None stands for zero."""
    if before is None:
        return {name: square * (1 - beta) for name, square in squares.items()}
    return {
        name: torch.mul(before[name], beta).add_(square, alpha=1 - beta)
        for name, square in squares.items()
    }


@torch.no_grad()
def fisher_noise(fisher: Tensors, sigma: float, generator: Generator) -> Tensors:
    """The Fisher with Gaussian noise on every entry, and nothing below zero.

    The standard deviation is `sigma` times the root mean square of the tensor. This gives no
    differential-privacy guarantee: the scale of the noise depends on the data, and the influence of
    one sample on a Fisher is not bounded. It only blurs what a reader of the record sees.
    """
    return {name: _noisy(tensor, sigma, generator) for name, tensor in fisher.items()}


def _noisy(tensor: Tensor, sigma: float, generator: Generator) -> Tensor:
    scale = sigma * float(tensor.square().mean().sqrt()) if tensor.numel() else 0.0
    noise = torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype, device="cpu")
    return (tensor + scale * noise).clamp_(min=0)


def summed(parts: Iterable[Tensors]) -> Tensors:
    """The element-wise sum as float32, added up in double precision.

    >>> summed([{"w": torch.tensor([1.0])}, {"w": torch.tensor([2.0])}])
    {'w': tensor([3.])}
    """
    sums: Tensors = {}
    for part in parts:
        for name, tensor in part.items():
            if name in sums:
                sums[name].add_(tensor)
            else:
                sums[name] = tensor.to(torch.float64, copy=True)
    return {name: total.float() for name, total in sums.items()}


class FisherRecord:
    """The Fisher of every client in memory, for use with another server.

    Examples:
        >>> fisher = FisherRecord([Layer("a", ("w",), 1)], beta=0.75)
        >>> fisher.add("ann", {"w": torch.tensor([4.0])})
        >>> fisher.add("bob", {"w": torch.tensor([2.0])})
        >>> fisher.of("ann"), fisher.total(), fisher.bytes
        ({'w': tensor([4.])}, {'w': tensor([5.])}, 8)
    """

    def __init__(self, layers: Sequence[Layer], beta: float = 0.99) -> None:
        if not 0 <= beta < 1:
            raise PfedulError(f"beta must be at least 0 and below 1, not {beta}.")
        self.layers = tuple(layers)
        self.beta = beta
        self._names = tuple(name for layer in self.layers for name in layer.tensors)
        self._shapes: dict[str, Size] = {}
        self._fisher: dict[str, Tensors] = {}

    def add(self, client: str, update: Tensors) -> None:
        """Take in one client's update of one round: global minus local, parameters only."""
        self._check_names(client, update)
        shapes = {name: update[name].shape for name in self._names}
        self._check_shapes(client, shapes)
        before = self._fisher.get(client)
        fisher = updated_fisher(before, {name: update[name] for name in self._names}, self.beta)
        _check_finite(client, fisher)
        self._shapes = shapes
        self._fisher[client] = fisher

    def of(self, client: str) -> Tensors:
        """The Fisher of one client."""
        self._check_known(client)
        return dict(self._fisher[client])

    def total(self) -> Tensors:
        """The element-wise sum over all clients present, computed each time."""
        return summed(self._fisher.values())

    @property
    def clients(self) -> tuple[str, ...]:
        """The clients present, in the order in which they first came."""
        return tuple(self._fisher)

    def remove(self, client: str) -> None:
        """Forget a client's Fisher; later totals have no rounding residue of it."""
        self._check_known(client)
        del self._fisher[client]

    @property
    def bytes(self) -> int:
        """The memory that the record takes."""
        return sum(size_in_bytes(fisher) for fisher in self._fisher.values())

    def _check_known(self, client: str) -> None:
        if client not in self._fisher:
            known = ", ".join(self._fisher) or "none"
            raise PfedulError(f"The Fisher record has no client '{client}'; it has: {known}.")

    def _check_names(self, client: str, update: Tensors) -> None:
        missing = [name for name in self._names if name not in update]
        extra = [name for name in update if name not in self._names]
        if missing:
            raise PfedulError(
                f"The update of client '{client}' lacks the tensor '{missing[0]}'; "
                "give one for every tensor of the layers."
            )
        if extra:
            raise PfedulError(
                f"The update of client '{client}' has the tensor '{extra[0]}', which is in no "
                "layer; leave out buffers and personal tensors."
            )

    def _check_shapes(self, client: str, shapes: dict[str, Size]) -> None:
        for name, known in self._shapes.items():
            if shapes[name] != known:
                raise PfedulError(
                    f"The tensor '{name}' in the update of client '{client}' has the shape "
                    f"{list(shapes[name])}; give it the shape of earlier updates, {list(known)}."
                )


def _check_finite(client: str, fisher: Tensors) -> None:
    """Checks the squares, so finite numbers that are too large to be squared fail too."""
    for name, tensor in fisher.items():
        if not bool(torch.isfinite(tensor).all()):
            raise PfedulError(
                f"The tensor '{name}' in the update of client '{client}' has NaN, infinite or "
                "far too large values; leave such an update out of the round."
            )
