"""Adam on plain dictionaries of tensors, so that its moments can be noted between steps."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pfedul.base.tensors import Tensors

_BETAS = (0.9, 0.999)
_EPSILON = 1e-8


@dataclass(frozen=True)
class Moments:
    """Running means of gradients and of their squares."""

    first: Tensors
    second: Tensors


def no_moments(like: Tensors) -> Moments:
    return Moments(*({name: torch.zeros_like(t) for name, t in like.items()} for _ in range(2)))


def adam_step(
    tensors: Tensors, gradients: Tensors, moments: Moments, lr: float, number: int
) -> tuple[Tensors, Moments]:
    """Step `number` (from 1): Kingma and Ba, ICLR 2015, Algorithm 1.

    >>> one = {"w": torch.ones(1)}
    >>> adam_step(one, {"w": torch.tensor([4.0])}, no_moments(one), 0.1, 1)[0]
    {'w': tensor([0.9000])}
    """
    first, second, after = {}, {}, {}
    for name, gradient in gradients.items():
        first[name] = moments.first[name].lerp(gradient, 1 - _BETAS[0])
        second[name] = moments.second[name].lerp(gradient.square(), 1 - _BETAS[1])
        mean = first[name] / (1 - _BETAS[0] ** number)
        spread = (second[name] / (1 - _BETAS[1] ** number)).sqrt() + _EPSILON
        after[name] = tensors[name] - lr * mean / spread
    return after, Moments(first, second)
