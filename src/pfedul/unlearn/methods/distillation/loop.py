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
from pfedul.unlearn.methods.distillation.generator import noise
from pfedul.unlearn.methods.distillation.lens import Lens, Observation
from pfedul.unlearn.methods.distillation.losses import (
    Moments,
    adam_step,
    attention_distance,
    feature_distance,
    output_distance,
)
from pfedul.unlearn.methods.distillation.options import DistilOptions

_TINY = 1e-30


@dataclass(frozen=True)
class Branch:
    """A client's part in it: personal tensors, and the gate that makes features its own."""

    personal: Tensors
    gate: Tensor


@dataclass(frozen=True)
class Parts:
    """Who takes part: `old` with a target's part is T_F, with a remaining client's part T_R.

    `start` has the shared tensors that the student does not train, above all statistics.
    """

    lens: Lens
    generator: nn.Module
    old: Tensors
    start: Tensors
    targets: Sequence[Branch]
    remaining: Sequence[Branch]
    dtype: torch.dtype


@dataclass(frozen=True)
class DistilState:
    """All that changes."""

    student: Tensors
    generator: Tensors
    moments: Moments


@dataclass(frozen=True)
class TeacherAnswers:
    """The teachers' answers on one batch: personal features of targets, views of remaining."""

    targets: list[Tensor]
    remaining: list[Observation]


def iterate(
    parts: Parts, state: DistilState, options: DistilOptions, seed: int, number: int
) -> DistilState:
    """One batch: `student_steps` of the student, then one of the generator.

    `number` is the step of the generator's optimiser and the place of its random draws.
    """
    chosen = draw_remaining(parts.remaining, options.branches, seed, number)
    z = noise(options.batch, parts.dtype, seed, number)
    with torch.no_grad():
        x = functional_call(parts.generator, state.generator, (z,))
        answers = TeacherAnswers(target_features(parts, x), remaining_views(parts, chosen, x))
    student = state.student
    for _ in range(options.student_steps):
        student = student_step(parts, chosen, student, answers, x, options)
    generator, moments = generator_step(parts, chosen, student, answers, state, z, options, number)
    return DistilState(student, generator, moments)


def draw_remaining(branches: Sequence[Branch], count: int, seed: int, number: int) -> list[Branch]:
    """Through whose parts the student is distilled this time."""
    stream = torch.Generator().manual_seed(derive_seed(seed, "branches", number))
    order = torch.randperm(len(branches), generator=stream)[:count]
    return [branches[index] for index in order.tolist()]


def target_features(parts: Parts, x: Tensor) -> list[Tensor]:
    """T_F: the personal features of every target."""
    return [branch.gate * _teacher(parts, branch, x).features for branch in parts.targets]


def remaining_views(parts: Parts, remaining: Sequence[Branch], x: Tensor) -> list[Observation]:
    """T_R: what the models of these remaining clients answered before."""
    return [_teacher(parts, branch, x) for branch in remaining]


def _teacher(parts: Parts, branch: Branch, x: Tensor) -> Observation:
    return parts.lens.look({**parts.old, **branch.personal}, x)


def student_step(
    parts: Parts,
    remaining: Sequence[Branch],
    student: Tensors,
    answers: TeacherAnswers,
    x: Tensor,
    options: DistilOptions,
) -> Tensors:
    """One step of SGD on the student's loss."""
    leaves = _leaves(student)
    weights = Weights(options.sign * options.forget, options.beta, options.gamma)
    slopes = gradients(loss(parts, remaining, leaves, answers, x, weights, options.tau), leaves)
    rate = options.lr * min(1.0, options.clip / max(norm(slopes), _TINY))
    return {name: student[name] - rate * slopes[name] for name in student}


def generator_step(
    parts: Parts,
    remaining: Sequence[Branch],
    student: Tensors,
    answers: TeacherAnswers,
    state: DistilState,
    z: Tensor,
    options: DistilOptions,
    number: int,
) -> tuple[Tensors, Moments]:
    """One step of Adam up the slope of what the student minimises: harder inputs.

    Of L_F alone (ZeroFU), or of L_F + beta L_K (Mimir, eq. 19).
    """
    leaves = _leaves(state.generator)
    x = functional_call(parts.generator, leaves, (z,))
    beta = options.beta if options.gen_obj == "lf+kd" else 0.0
    # Views without weight in the loss need not be asked for again with a way back to x.
    answers = TeacherAnswers(
        target_features(parts, x),
        remaining_views(parts, remaining, x) if beta else answers.remaining,
    )
    weights = Weights(options.sign * options.forget, beta, 0.0)
    slopes = gradients(-loss(parts, remaining, student, answers, x, weights, options.tau), leaves)
    return adam_step(state.generator, slopes, state.moments, options.generator_lr, number)


@dataclass(frozen=True)
class Weights:
    """Of the three losses; a loss of weight 0 is not computed."""

    features: float
    outputs: float
    attention: float


def loss(
    parts: Parts,
    remaining: Sequence[Branch],
    student: Mapping[str, Tensor],
    answers: TeacherAnswers,
    x: Tensor,
    weights: Weights,
    tau: float,
) -> Tensor:
    """The mean over remaining clients, each through its own frozen personal part."""
    total = torch.zeros((), dtype=x.dtype)
    for branch, teacher in zip(remaining, answers.remaining, strict=True):
        view = parts.lens.look({**parts.start, **student, **branch.personal}, x)
        own = branch.gate * view.features
        if weights.features:
            apart = [feature_distance(own, other) for other in answers.targets]
            total = total + weights.features * torch.stack(apart).mean()
        if weights.outputs:
            total = total + weights.outputs * output_distance(view.logits, teacher.logits, tau)
        if weights.attention:
            total = total + weights.attention * attention_distance(view.maps, teacher.maps)
    return total / len(remaining)


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
