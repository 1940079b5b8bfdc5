"""Gaussian noise on shared parameters, from the server's own random stream."""

from __future__ import annotations

import torch

from pfedul.base.tensors import Tensors
from pfedul.unlearn.context import Work

SCALES = ("same", "tensor")


def with_noise(work: Work, shared: Tensors, sigma: float, scale: str = "same") -> Tensors:
    """N(0, sigma^2) on every shared parameter that is trained; all else stays as it is.

    What the model's author froze never knew of anybody. A tied tensor has one noise.

    With the scale "tensor", sigma is in units of each tensor's own standard deviation.
    """
    if not sigma:
        return shared
    source = work.generator("noise")
    noisy = dict(shared)
    for name in work.trained:
        tensor = shared[name].to(torch.float64)
        unit = float(tensor.std(correction=0)) if scale == "tensor" else 1.0
        drawn = torch.randn(tensor.shape, generator=source, dtype=torch.float64)
        noisy[name] = (tensor + sigma * unit * drawn).to(shared[name].dtype)
    return work.agreeing(noisy)
