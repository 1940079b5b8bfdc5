"""A federation that is one matrix, in double precision, and the same in numpy.

FedAvg with nothing personal and one batch for each client: every local epoch is one
step along the exact gradient, so a method's equations can be written out.

`normed` has BatchNorm before the matrix. Seen from the matrix it only changes the data:
by statistics of the run where they stand still (`standing`), by those of the client's one batch
where they move (`moving`). So the same equations hold, on other data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pfedul import Federation

INPUTS, CLASSES = 4, 3
SIZES = {"c0": 5, "c1": 8, "c2": 3, "c3": 6}
TARGET = "c1"
NAME = "0.weight"
NORMED_NAME = "1.weight"
MEAN, VARIANCE = "0.running_mean", "0.running_var"
RATE, MOMENTUM, EPOCHS = 0.2, 0.5, 2
Array = np.ndarray[Any, np.dtype[np.float64]]
Data = Mapping[str, tuple[Array, Array]]


def matrix() -> nn.Module:
    return nn.Sequential(nn.Linear(INPUTS, CLASSES, bias=False)).double()


def normed() -> nn.Module:
    norm = nn.BatchNorm1d(INPUTS, affine=False)
    return nn.Sequential(norm, nn.Linear(INPUTS, CLASSES, bias=False)).double()


def parts() -> dict[str, tuple[Array, Array]]:
    """Each client's inputs and labels."""
    rng = np.random.default_rng(3)
    return {
        client: (rng.normal(size=(size, INPUTS)), rng.integers(0, CLASSES, size))
        for client, size in SIZES.items()
    }


def federation(run: Path, clients: Any = None, **settings: Any) -> Federation:
    data = {client: (part, part) for client, part in (clients or parts()).items()}
    usual = {"personalization": "fedavg", "engine": "inline", "local_epochs": EPOCHS, "rounds": 2}
    chosen = {**usual, "lr": RATE, "momentum": MOMENTUM, "batch_size": 64, **settings}
    return Federation.create(run, **{"data": data, "model": matrix, **chosen})


def weight(federation: Federation, name: str = NAME) -> Array:
    return federation.shared[name].numpy().copy()


def standing(shared: Mapping[str, torch.Tensor]) -> Data:
    """What the matrix behind BatchNorm is given while statistics stand still."""
    mean, variance = shared[MEAN].numpy().copy(), shared[VARIANCE].numpy().copy()
    return {c: ((x - mean) / np.sqrt(variance + _EPSILON), y) for c, (x, y) in parts().items()}


def moving() -> Data:
    """What it is given while they move: each client's batch by its own statistics."""
    return {
        client: ((x - x.mean(0)) / np.sqrt(x.var(0) + _EPSILON), y)
        for client, (x, y) in parts().items()
    }


def moved_statistics(
    shared: Mapping[str, torch.Tensor], clients: Sequence[str], rounds: int, epochs: int = EPOCHS
) -> tuple[Array, Array]:
    """The running mean and variance after rounds of these clients: each batch counts a tenth."""
    old = 0.9 ** (rounds * epochs)
    sizes = [SIZES[client] for client in clients]
    inputs = [parts()[client][0] for client in clients]
    means = np.average([x.mean(0) for x in inputs], axis=0, weights=sizes)
    variances = np.average([x.var(0, ddof=1) for x in inputs], axis=0, weights=sizes)
    pairs = ((shared[MEAN], means), (shared[VARIANCE], variances))
    mean, variance = (old * before.numpy() + (1 - old) * new for before, new in pairs)
    return mean, variance


_EPSILON = 1e-5
"""Torch's, under the root of a variance."""


def known(w: Array, x: Array) -> Array:
    """The softmax of x w'."""
    logits = x @ w.T
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def cross_entropy_gradient(w: Array, client: str, data: Data | None = None) -> Array:
    x, y = (data or parts())[client]
    return (known(w, x) - np.eye(CLASSES)[y]).T @ x / len(y)


def unlearning_gradient(w: Array, client: str, data: Data | None = None) -> Array:
    """Of -mean log(1 - p_y / 2): by the chain rule through p_y."""
    x, y = (data or parts())[client]
    p = known(w, x)
    of_label = p[np.arange(len(y)), y][:, None]
    along_logits = of_label * (np.eye(CLASSES)[y] - p) / (2 - of_label)
    return along_logits.T @ x / len(y)


def fedavg_round(
    w: Array, clients: Sequence[str], epochs: int = 1, data: Data | None = None
) -> Array:
    """Epochs of each client, with momentum, and their mean by samples."""
    ends = [_local_epochs(w, client, epochs, data) for client in clients]
    mean: Array = np.average(ends, axis=0, weights=[SIZES[client] for client in clients])
    return mean


def _local_epochs(w: Array, client: str, epochs: int, data: Data | None) -> Array:
    speed = np.zeros_like(w)
    for _ in range(epochs):
        speed = MOMENTUM * speed + cross_entropy_gradient(w, client, data)
        w = w - RATE * speed
    return w


def assert_close(found: torch.Tensor | Array, expected: Array) -> None:
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-9, atol=1e-12)
