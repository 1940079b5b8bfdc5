"""A federation that is one matrix, in double precision, and the same in numpy.

FedAvg with nothing personal and one batch for each client: every local epoch is one
step along the exact gradient, so that a method's equations can be written out.
"""

from __future__ import annotations

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
RATE = 0.2
Array = np.ndarray[Any, np.dtype[np.float64]]


def matrix() -> nn.Module:
    return nn.Sequential(nn.Linear(INPUTS, CLASSES, bias=False)).double()


def parts() -> dict[str, tuple[Array, Array]]:
    """Each client's inputs and labels."""
    rng = np.random.default_rng(3)
    return {
        client: (rng.normal(size=(size, INPUTS)), rng.integers(0, CLASSES, size))
        for client, size in SIZES.items()
    }


def federation(run: Path, clients: Any = None, **settings: Any) -> Federation:
    data = {client: (part, part) for client, part in (clients or parts()).items()}
    usual = {"personalization": "fedavg", "engine": "inline", "local_epochs": 2, "rounds": 2}
    chosen = {**usual, "lr": RATE, "momentum": 0.5, "batch_size": 64, **settings}
    return Federation.create(run, data=data, model=matrix, **chosen)


def weight(federation: Federation) -> Array:
    return federation.shared[NAME].numpy().copy()


def known(w: Array, x: Array) -> Array:
    """The softmax of x w'."""
    logits = x @ w.T
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def cross_entropy_gradient(w: Array, client: str) -> Array:
    x, y = parts()[client]
    return (known(w, x) - np.eye(CLASSES)[y]).T @ x / len(y)


def unlearning_gradient(w: Array, client: str) -> Array:
    """Of -mean log(1 - p_y / 2): by the chain rule through p_y."""
    x, y = parts()[client]
    p = known(w, x)
    of_label = p[np.arange(len(y)), y][:, None]
    along_logits = of_label * (np.eye(CLASSES)[y] - p) / (2 - of_label)
    return along_logits.T @ x / len(y)


def fedavg_round(w: Array, clients: list[str]) -> Array:
    """One step of each client, and their mean by samples."""
    total = sum(SIZES[client] for client in clients)
    return sum(
        SIZES[client] / total * (w - RATE * cross_entropy_gradient(w, client)) for client in clients
    )


def assert_close(found: torch.Tensor | Array, expected: Array) -> None:
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-9, atol=1e-12)
