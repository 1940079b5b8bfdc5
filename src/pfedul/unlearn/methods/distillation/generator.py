"""The generator: noise in, inputs of the run's shape out.

Images as in ZeroFU; inputs of any other shape come from two linear layers. BatchNorm always uses
the batch at hand: a generator has no state but its parameters. The last one leaves values of mean
0 and variance 1 in each channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pfedul.base.randomness import derive_seed, random_stream
from pfedul.base.tensors import Tensors

NOISE = 100
_CHANNELS = 32
_HIDDEN = 128
_SLOPE = 0.2


class ImageGenerator(nn.Module):
    """For channels x height x width."""

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__()
        channels, self.height, self.width = shape
        self.small = (-(-self.height // 4), -(-self.width // 4))
        self.project = nn.Linear(NOISE, _CHANNELS * prod(self.small))
        self.norm = _norm(_CHANNELS)
        self.conv1, self.norm1 = nn.Conv2d(_CHANNELS, _CHANNELS, 3, padding=1), _norm(_CHANNELS)
        self.conv2, self.norm2 = nn.Conv2d(_CHANNELS, _CHANNELS, 3, padding=1), _norm(_CHANNELS)
        self.paint = nn.Conv2d(_CHANNELS, channels, 3, padding=1)
        self.last = nn.BatchNorm2d(channels, affine=False, track_running_stats=False)

    def forward(self, z: Tensor) -> Tensor:
        x = self.norm(self.project(z).unflatten(1, (_CHANNELS, *self.small)))
        x = F.interpolate(x, size=(-(-self.height // 2), -(-self.width // 2)))
        x = F.leaky_relu(self.norm1(self.conv1(x)), _SLOPE)
        x = F.interpolate(x, size=(self.height, self.width))
        x = F.leaky_relu(self.norm2(self.conv2(x)), _SLOPE)
        image: Tensor = self.last(self.paint(x))
        return image


class FlatGenerator(nn.Module):
    """For inputs of any shape, as one row of numbers."""

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__()
        self.shape = tuple(shape)
        self.hidden = nn.Linear(NOISE, _HIDDEN)
        self.norm = nn.BatchNorm1d(_HIDDEN, track_running_stats=False)
        self.out = nn.Linear(_HIDDEN, prod(shape))
        self.last = nn.BatchNorm1d(prod(shape), affine=False, track_running_stats=False)

    def forward(self, z: Tensor) -> Tensor:
        hidden = F.leaky_relu(self.norm(self.hidden(z)), _SLOPE)
        flat: Tensor = self.last(self.out(hidden))
        return flat.view(-1, *self.shape)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, track_running_stats=False)


def generator_for(shape: Sequence[int], dtype: torch.dtype, seed: int) -> nn.Module:
    """A fresh generator: the same wherever the seed is.

    >>> generator_for((1, 8, 8), torch.float32, 0)(torch.randn(2, NOISE)).shape
    torch.Size([2, 1, 8, 8])
    """
    kind = ImageGenerator if len(shape) == 3 else FlatGenerator
    with random_stream(seed, "generator"), torch.device("cpu"):
        return kind(shape).to(dtype)


def parameters_of(generator: nn.Module) -> Tensors:
    return {name: p.detach().clone() for name, p in generator.named_parameters()}


def noise(count: int, dtype: torch.dtype, seed: int, number: int) -> Tensor:
    """What the generator is given in one iteration."""
    stream = torch.Generator().manual_seed(derive_seed(seed, "noise", number))
    return torch.randn(count, NOISE, dtype=dtype, generator=stream, device="cpu")
