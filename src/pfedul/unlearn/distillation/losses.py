"""The three losses of distillation (ZeroFU, eq. 15 to 18 as re-implemented)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


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
    own, told = F.log_softmax(student / tau, 1), F.log_softmax(teacher / tau, 1)
    return tau**2 * F.kl_div(own, told, reduction="batchmean", log_target=True)


def attention_map(output: Tensor) -> Tensor:
    """Where a convolution is active: the mean square over its channels, of length 1."""
    return F.normalize(output.square().mean(1).flatten(1), dim=1)


def attention_distance(student: Sequence[Tensor], teacher: Sequence[Tensor]) -> Tensor:
    """L_att: squared distances of maps, the mean over the batch and the layers; 0 without any."""
    if not student:
        return torch.zeros(())
    pairs = zip(student, teacher, strict=True)
    return torch.stack([(own - told).square().sum(1).mean() for own, told in pairs]).mean()
