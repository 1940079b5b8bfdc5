"""Three clients of a model of one weight, trained for real and with paper and pencil.

Each client has copies of one point, so every batch is the whole of its data and a
round is one step: all that records and methods should find can be computed in plain Python.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from helpers.toys import OneWeight
from pfedul import Federation

POINTS = {"ann": (1.0, 0, 2), "bob": (2.0, 1, 1), "cat": (-1.5, 0, 3)}
"""Client -> its point, the label, and how many copies it has: its weight."""

RATE = 0.1


def federation(run: Path, **settings: Any) -> Federation:
    chosen = {
        "personalization": "fedper",
        "rounds": 3,
        "local_epochs": 1,
        "lr": RATE,
        "momentum": 0.0,
        "min_samples": 1,
        "engine": "inline",
        "record": "all",
    }
    return Federation.create(run, data=_data(), model=OneWeight, **{**chosen, **settings})


def _data() -> dict[str, Any]:
    data = {}
    for name, (x, label, copies) in POINTS.items():
        part = torch.full((copies, 1), x), torch.full((copies,), label)
        data[name] = (part, part)
    return data


def body_step(w: float, head: tuple[float, float], client: str) -> float:
    """What one step of gradient descent makes of the body's weight."""
    x, label, _ = POINTS[client]
    d = _errors(w, head, x, label)
    return w - RATE * (d[0] * head[0] + d[1] * head[1]) * x


def head_step(w: float, head: tuple[float, float], client: str) -> tuple[float, float]:
    x, label, _ = POINTS[client]
    d = _errors(w, head, x, label)
    return head[0] - RATE * d[0] * w * x, head[1] - RATE * d[1] * w * x


def _errors(w: float, head: tuple[float, float], x: float, label: int) -> tuple[float, float]:
    """Probabilities minus the truth."""
    p = 1 / (1 + math.exp((head[1] - head[0]) * w * x))
    return (p - 1, 1 - p) if label == 0 else (p, -p)


def mean(values: dict[str, float]) -> float:
    copies = {name: POINTS[name][2] for name in values}
    return sum(values[name] * copies[name] for name in values) / sum(copies.values())


@dataclass
class Pencil:
    """The same training by hand: the weight before each round and after the last, and uploads.

    `there`: who takes part in a round, where that is not everybody.
    """

    rounds: int
    there: Mapping[int, Sequence[str]] = field(default_factory=dict)
    weights: list[float] = field(default_factory=lambda: [1.0])
    uploads: list[dict[str, float]] = field(default_factory=list)
    heads: dict[str, tuple[float, float]] = field(
        default_factory=lambda: dict.fromkeys(POINTS, (0.5, -0.25))
    )

    def __post_init__(self) -> None:
        for number in range(1, self.rounds + 1):
            w, there = self.weights[-1], self.there.get(number, tuple(POINTS))
            self.uploads.append({name: body_step(w, self.heads[name], name) for name in there})
            self.heads |= {name: head_step(w, self.heads[name], name) for name in there}
            self.weights.append(mean(self.uploads[-1]))

    def residual(self, number: int, *targets: str) -> float:
        """The model after this round minus the model without these clients' part in it."""
        staying = {n: u for n, u in self.uploads[number - 1].items() if n not in targets}
        return self.weights[number] - mean(staying)

    def square(self, number: int) -> float:
        return (self.weights[number] - self.weights[number - 1]) ** 2
