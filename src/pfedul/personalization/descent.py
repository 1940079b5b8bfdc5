"""Optimisers, and the rate of each step.

They call torch's functions, as its classes import the compiler at their first step, in every
process again. Their state lives as long as one local training: nothing passes between rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from pfedul.personalization.base import LocalTraining, cosine

BETAS, EPSILON = (0.9, 0.999), 1e-8
"""Of Adam and AdamW: torch's own."""


class Sgd:
    """SGD with momentum, the bits of `torch.optim.SGD`."""

    def __init__(self, training: LocalTraining) -> None:
        self._momentum, self._decay = training.momentum, training.weight_decay
        self._buffers: dict[int, Tensor | None] = {}

    def step(self, moved: dict[int, Tensor], gradients: list[Tensor], rate: float) -> None:
        """One step of these parameters, which are numbered."""
        buffers = [self._buffers.get(place) for place in moved]
        sgd(
            list(moved.values()),
            gradients,
            buffers,
            lr=rate,
            momentum=self._momentum,
            weight_decay=self._decay,
            dampening=0,
            nesterov=False,
            maximize=False,
        )
        self._buffers.update(zip(moved, buffers, strict=True))


class Adam:
    """Adam, or with `decoupled` weight decay AdamW; the bits of torch's classes."""

    def __init__(self, training: LocalTraining, decoupled: bool = False) -> None:
        self._decay, self._decoupled = training.weight_decay, decoupled
        self._state: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    def step(self, moved: dict[int, Tensor], gradients: list[Tensor], rate: float) -> None:
        """One step of these parameters, which are numbered."""
        for place, parameter in moved.items():
            self._state.setdefault(place, _moments(parameter))
        states = [self._state[place] for place in moved]
        means, squares, steps = (list(part) for part in zip(*states, strict=True))
        adam(
            list(moved.values()),
            gradients,
            means,
            squares,
            [],
            steps,
            foreach=False,
            decoupled_weight_decay=self._decoupled,
            amsgrad=False,
            beta1=BETAS[0],
            beta2=BETAS[1],
            lr=rate,
            weight_decay=self._decay,
            eps=EPSILON,
            maximize=False,
        )


def _moments(parameter: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and square of the gradients so far, and the number of steps."""
    steps = torch.zeros((), dtype=torch.float32, device="cpu")
    return torch.zeros_like(parameter), torch.zeros_like(parameter), steps


OPTIMIZERS: dict[str, Callable[[LocalTraining], Any]] = {
    "sgd": Sgd,
    "adam": Adam,
    "adamw": lambda training: Adam(training, decoupled=True),
}


class Descent:
    """Some parameters and the optimiser that moves them."""

    def __init__(self, parameters: Sequence[Tensor], training: LocalTraining) -> None:
        self._parameters = parameters
        self._optimizer = OPTIMIZERS[training.optimizer](training)

    def clear(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """One step of all parameters that have a gradient."""
        moved = {place: p for place, p in enumerate(self._parameters) if p.grad is not None}
        gradients = [p.grad for p in moved.values() if p.grad is not None]
        if moved:
            self._optimizer.step(moved, gradients, rate)


def rates(steps: int, training: LocalTraining) -> Callable[[int], float]:
    """The rate of each of so many steps."""
    if not training.cosine:
        return lambda _step: training.lr
    own = min(steps, training.steps or steps)
    before, whole = (training.part - 1) * own, training.parts * own
    return lambda step: training.lr * cosine(before + step, whole)
