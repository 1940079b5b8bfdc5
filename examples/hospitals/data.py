"""Four hospitals with scans of their own: handwritten digits, which scikit-learn brings along.

Put the reading of your own files here. pfedul calls `clients` whenever it opens the run, and the
samples must be the same at every call.
"""

import torch
from sklearn.datasets import load_digits
from torch import Tensor

SHARES = {"north": 0.4, "east": 0.2, "south": 0.2, "west": 0.2}

Samples = tuple[Tensor, Tensor]
"""Inputs and labels."""


def clients(held_out: float = 0.6, seed: int = 5) -> dict[str, tuple[Samples, Samples]]:
    """{client: (train, test)}. Many samples are held out, as audits are judged on them."""
    digits = load_digits()
    x = torch.from_numpy(digits.data).float() / 16
    y = torch.from_numpy(digits.target)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    sizes = [int(share * len(y)) for share in SHARES.values()]
    places = torch.split(order[: sum(sizes)], sizes)
    return {name: _parts(x[at], y[at], held_out) for name, at in zip(SHARES, places, strict=True)}


def _parts(x: Tensor, y: Tensor, held_out: float) -> tuple[Samples, Samples]:
    test = int(held_out * len(y))
    return (x[test:], y[test:]), (x[:test], y[:test])
