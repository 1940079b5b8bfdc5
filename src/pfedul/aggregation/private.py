"""DP-FedAvg: a mean of shortened updates with noise, whose denominator is fixed.

H. B. McMahan, D. Ramage, K. Talwar, L. Zhang, "Learning Differentially Private Recurrent Language
Models", ICLR 2018 (arXiv 1710.06963), with its fixed-denominator estimator and equal weights.
No update is longer than `clip` (`Rules.limit`), each client takes part with probability `rate`, and

    new = old + (sum of updates + N(0, (noise * clip)^2)) / (rate * clients).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator

from pfedul.aggregation.base import Share
from pfedul.base.hashes import digest
from pfedul.base.randomness import derive_seed
from pfedul.base.tensorfile import encode
from pfedul.base.tensors import Tensors


@dataclass(frozen=True)
class Privacy:
    """The bound on an update, the noise in units of it, and how many clients a round has."""

    clip: float
    noise: float
    expected: float


class NoisyMean:
    """Adds up updates as they come; the noise is drawn from `seed`, the same for tied tensors.

    The sum is a part of what it is drawn from. A round that is played again, after a kill or in a
    copy, may have other replies, and the difference of two means must not be without noise.
    """

    noise: Tensors

    def __init__(
        self, how: Privacy, seed: int, agreeing: Callable[[Tensors], Tensors], before: Tensors
    ) -> None:
        self._how, self._seed, self._agreeing, self._before = how, seed, agreeing, before
        self._sum = {name: torch.zeros_like(t, dtype=torch.float64) for name, t in before.items()}
        self.noise = {}

    def add(self, _client: str, tensors: Tensors, _weight: float) -> None:
        for name, tensor in tensors.items():
            self._sum[name] += tensor.double() - self._before[name]

    def result(self) -> Tensors:
        self.noise = self._agreeing(self._drawn())
        return {
            name: (old + self._sum[name] / self._how.expected + self.noise[name]).to(old.dtype)
            for name, old in self._before.items()
        }

    def _drawn(self) -> Tensors:
        seed = derive_seed(self._seed, "noise of a sum", digest(encode(self._sum)))
        source = Generator().manual_seed(seed)
        scale = self._how.noise * self._how.clip / self._how.expected
        return {
            name: scale * torch.randn(t.shape, generator=source, dtype=torch.float64, device="cpu")
            for name, t in self._before.items()
        }

    def share(self, _client: str) -> Share:
        return 1 / self._how.expected
