"""How much of each layer is the target's, and which layers that singles out: Eq. 6 to 8.

I_l is the target's share of the L1 norm of the Fisher of all clients present,
over the tensors of a layer together. The threshold is the mean of the scores
plus alpha population standard deviations; a layer is chosen above it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, pstdev

import numpy as np

from pfedul.base.tensors import Tensors
from pfedul.split import Layer

ROUNDING = 1e-6
"""Relative difference below which two scores are equal: a Fisher is stored as float32."""


def layer_scores(target: Tensors, total: Tensors, layers: Sequence[Layer]) -> list[float]:
    """I_l of each layer; 0 where no client has left anything in the layer.

    >>> from torch import tensor
    >>> layer = Layer("a", ("w",), 2)
    >>> layer_scores({"w": tensor([1.0, 0.0])}, {"w": tensor([2.0, 2.0])}, [layer])
    [0.25]
    """
    pairs = [(_l1_norm(target, layer), _l1_norm(total, layer)) for layer in layers]
    return [own / everyone if everyone else 0.0 for own, everyone in pairs]


def _l1_norm(fisher: Tensors, layer: Layer) -> float:
    """A plain sum, as no entry of a Fisher is below zero; NumPy needs no copy for doubles."""
    parts = (fisher[name].numpy() for name in layer.tensors)
    return math.fsum(float(part.sum(dtype=np.float64)) for part in parts)


def threshold(scores: Sequence[float], alpha: float) -> float:
    """tau = mean + alpha * population standard deviation.

    >>> threshold([0.0, 1.0], alpha=0.5)
    0.75
    """
    return fmean(scores) + alpha * pstdev(scores)


def select(scores: Sequence[float], tau: float) -> list[bool]:
    """Which scores are above the threshold by more than rounding.

    Without that margin equal scores, whose mean is the threshold, would be
    chosen or not by the last bit of the mean.

    >>> select([0.1, 0.1, 0.4], tau=0.2)
    [False, False, True]
    """
    return [score - tau > ROUNDING * max(score, tau) for score in scores]
