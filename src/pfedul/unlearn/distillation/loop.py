"""The loop: draw inputs, let the student learn on them, let the generator make them harder.

Pure functions of dictionaries of tensors; who runs them and where is decided elsewhere.
The student steps by plain SGD: it starts where there is hardly anything to learn, and
Adam's steps would be as long on rounding errors as on gradients. Teachers' answers are
computed once for each batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from pfedul.base.randomness import derive_seed
from pfedul.base.tensors import Tensors, norm
from pfedul.unlearn.distillation.adam import Moments, adam_step
from pfedul.unlearn.distillation.generator import noise
from pfedul.unlearn.distillation.lens import Lens, View
from pfedul.unlearn.distillation.losses import (
    attention_distance,
    feature_distance,
    output_distance,
)
from pfedul.unlearn.distillation.options import DistilOptions

_TINY = 1e-30


@dataclass(frozen=True)
class Side:
    """A client's part in it: personal tensors, and the gate that makes features its own."""

    personal: Tensors
    gate: Tensor


@dataclass(frozen=True)
class Cast:
    """Who takes part: `old` with a leaver's part is T_F, with a stayer's part T_R.

    `start` has the shared tensors that the student does not train, above all statistics.
    """

    lens: Lens
    generator: nn.Module
    old: Tensors
    start: Tensors
    leavers: Sequence[Side]
    stayers: Sequence[Side]
    dtype: torch.dtype


@dataclass(frozen=True)
class State:
    """All that changes."""

    student: Tensors
    generator: Tensors
    moments: Moments


@dataclass(frozen=True)
class Told:
    """The teachers' answers on one batch: personal features of leavers, views of stayers."""

    leavers: list[Tensor]
    stayers: list[View]


def iterate(cast: Cast, state: State, options: DistilOptions, seed: int, number: int) -> State:
    """One batch: `student_steps` of the student, then one of the generator.

    `number` is the step of the generator's optimiser and the place of its random draws.
    """
    chosen = draw_stayers(cast.stayers, options.branches, seed, number)
    z = noise(options.batch, cast.dtype, seed, number)
    with torch.no_grad():
        x = functional_call(cast.generator, state.generator, (z,))
        told = Told(ask_leavers(cast, x), ask_stayers(cast, chosen, x))
    student = state.student
    for _ in range(options.student_steps):
        student = student_step(cast, chosen, student, told, x, options)
    generator, moments = generator_step(cast, chosen, student, told, state, z, options, number)
    return State(student, generator, moments)


def draw_stayers(sides: Sequence[Side], count: int, seed: int, number: int) -> list[Side]:
    """Through whose parts the student is distilled this time."""
    stream = torch.Generator().manual_seed(derive_seed(seed, "branches", number))
    order = torch.randperm(len(sides), generator=stream)[:count]
    return [sides[index] for index in order.tolist()]


def ask_leavers(cast: Cast, x: Tensor) -> list[Tensor]:
    """T_F: the personal features of every target."""
    return [side.gate * _teacher(cast, side, x).features for side in cast.leavers]


def ask_stayers(cast: Cast, stayers: Sequence[Side], x: Tensor) -> list[View]:
    """T_R: what the models of these remaining clients answered before."""
    return [_teacher(cast, side, x) for side in stayers]


def _teacher(cast: Cast, side: Side, x: Tensor) -> View:
    return cast.lens.look({**cast.old, **side.personal}, x)


def student_step(
    cast: Cast,
    stayers: Sequence[Side],
    student: Tensors,
    told: Told,
    x: Tensor,
    options: DistilOptions,
) -> Tensors:
    """One step of SGD on the student's loss."""
    leaves = _leaves(student)
    weights = Weights(options.sign * options.forget, options.beta, options.gamma)
    slopes = gradients(loss(cast, stayers, leaves, told, x, weights, options.tau), leaves)
    rate = options.lr * min(1.0, options.clip / max(norm(slopes), _TINY))
    return {name: student[name] - rate * slopes[name] for name in student}


def generator_step(
    cast: Cast,
    stayers: Sequence[Side],
    student: Tensors,
    told: Told,
    state: State,
    z: Tensor,
    options: DistilOptions,
    number: int,
) -> tuple[Tensors, Moments]:
    """One step of Adam up the slope of what the student minimises: harder inputs.

    Of L_F alone (ZeroFU), or of L_F + beta L_K (Mimir, eq. 19).
    """
    leaves = _leaves(state.generator)
    x = functional_call(cast.generator, leaves, (z,))
    beta = options.beta if options.gen_obj == "lf+kd" else 0.0
    # Views without weight in the loss need not be asked for again with a way back to x.
    told = Told(ask_leavers(cast, x), ask_stayers(cast, stayers, x) if beta else told.stayers)
    weights = Weights(options.sign * options.forget, beta, 0.0)
    slopes = gradients(-loss(cast, stayers, student, told, x, weights, options.tau), leaves)
    return adam_step(state.generator, slopes, state.moments, options.generator_lr, number)


@dataclass(frozen=True)
class Weights:
    """Of the three losses; a loss of weight 0 is not computed."""

    features: float
    outputs: float
    attention: float


def loss(
    cast: Cast,
    stayers: Sequence[Side],
    student: Mapping[str, Tensor],
    told: Told,
    x: Tensor,
    weights: Weights,
    tau: float,
) -> Tensor:
    """The mean over remaining clients, each through its own frozen personal part."""
    total = torch.zeros((), dtype=x.dtype)
    for side, teacher in zip(stayers, told.stayers, strict=True):
        view = cast.lens.look({**cast.start, **student, **side.personal}, x)
        own = side.gate * view.features
        if weights.features:
            apart = [feature_distance(own, other) for other in told.leavers]
            total = total + weights.features * torch.stack(apart).mean()
        if weights.outputs:
            total = total + weights.outputs * output_distance(view.logits, teacher.logits, tau)
        if weights.attention:
            total = total + weights.attention * attention_distance(view.maps, teacher.maps)
    return total / len(stayers)


def gradients(value: Tensor, leaves: Tensors) -> Tensors:
    """With zeros for what the value does not depend on."""
    if not value.requires_grad:
        return {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    found = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
    return {
        name: torch.zeros_like(leaf) if slope is None else slope
        for (name, leaf), slope in zip(leaves.items(), found, strict=True)
    }


def _leaves(tensors: Tensors) -> Tensors:
    return {name: tensor.detach().requires_grad_() for name, tensor in tensors.items()}
