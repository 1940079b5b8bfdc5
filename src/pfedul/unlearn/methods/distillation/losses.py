"""The three losses of distillation (ZeroFU, eq. 15 to 18 as re-implemented), and Adam.

Adam works on plain dictionaries of tensors, so its moments can be saved between steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from pfedul.base.tensors import Tensors


def feature_distance(own: Tensor, other: Tensor) -> Tensor:
    """L_F: one minus the cosine of two features, the mean over the batch.

    >>> feature_distance(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]]))
    tensor(1.)
    """
    return (1 - F.cosine_similarity(own.flatten(1), other.flatten(1))).mean()


def output_distance(student: Tensor, teacher: Tensor, tau: float) -> Tensor:
    """L_K: tau^2 KL(teacher || student) of outputs at this temperature.

    >>> float(output_distance(torch.zeros(1, 2), torch.zeros(1, 2), tau=2.0))
    0.0
    """
    own, answers = F.log_softmax(student / tau, 1), F.log_softmax(teacher / tau, 1)
    return tau**2 * F.kl_div(own, answers, reduction="batchmean", log_target=True)


def attention_map(output: Tensor) -> Tensor:
    """Where a convolution is active: the mean square over its channels, of length 1."""
    return F.normalize(output.square().mean(1).flatten(1), dim=1)


def attention_distance(student: Sequence[Tensor], teacher: Sequence[Tensor]) -> Tensor:
    """L_att: squared distances of maps, the mean over the batch and the layers; 0 without any."""
    if not student:
        return torch.zeros(())
    pairs = zip(student, teacher, strict=True)
    return torch.stack([(own - answers).square().sum(1).mean() for own, answers in pairs]).mean()


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
