"""What one client changed in one round: the round with it, minus the round without it."""

from __future__ import annotations

import torch

from pfedul.base.tensors import Tensors


def round_residual(weight: float, of_client: Tensors, of_round: Tensors) -> Tensors:
    """w (D_u - D) / (1 - w), in double precision: the mean with the client minus that without it.

    `of_client` is what the client sent and `of_round` the mean, both as changes or both as
    tensors: what they have in common falls out. A client that was alone in its round (weight
    1) has a residual only of changes: without it there would have been no round.

    >>> with_ann = {"w": torch.tensor([2.0])}  # the mean of ann's 5 and bob's 1, weights 1 and 3
    >>> round_residual(0.25, {"w": torch.tensor([5.0])}, with_ann)
    {'w': tensor([1.], dtype=torch.float64)}
    """
    if weight >= 1:
        return {name: tensor.to(torch.float64, copy=True) for name, tensor in of_round.items()}
    share = weight / (1 - weight)
    return {
        name: (tensor.to(torch.float64) - of_round[name]) * share
        for name, tensor in of_client.items()
    }
