"""The loop: draw inputs, let the student learn on them, let the generator make them harder.

Pure functions of dictionaries of tensors; who runs them and where is decided in run.py.
The student steps by plain SGD: it starts where there is hardly anything to learn, and
Adam's steps would be as long on rounding errors as on gradients. Teachers' answers are
computed once for each batch. Losses are those of ZeroFU, eq. 15 to 18 as re-implemented.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from pfedul.base.options import option
from pfedul.base.randomness import derive_seed
from pfedul.base.tensors import Tensors, norm
from pfedul.unlearn.methods.distillation.generator import noise
from pfedul.unlearn.methods.distillation.lens import Lens, Observation

_TINY = 1e-30


@dataclass(frozen=True)
class DistilOptions:
    """What both methods share. The loss is `forget` * L_F + `beta` * L_K + `gamma` * L_att."""

    iterations: int = option(80, "Batches of generated inputs.", at_least=1)
    student_steps: int = option(3, "Steps of the student on each batch.", at_least=1)
    # The generator normalises over the batch.
    batch: int = option(64, "Generated inputs in a batch.", at_least=2)
    branches: int = option(3, "Remaining clients at a time.", at_least=1)
    lr: float = option(0.001, "Rate of the student.", above=0)
    clip: float = option(1.0, "Bound on the norm of the student's gradients.", above=0)
    generator_lr: float = option(0.001, "Rate of the generator.", above=0)
    forget: float = option(1.0, "Weight of L_F, the distance of features.", at_least=0)
    beta: float = option(5.0, "Weight of L_K, the distance of outputs.", at_least=0)
    gamma: float = option(2.0, "Weight of L_att, the distance of attention maps.", at_least=0)
    tau: float = option(2.0, "Temperature of L_K.", above=0)
    lf_sign: str = option(
        "pull", "Features toward the target's, or away from them.", choices=("pull", "push")
    )
    student_init: str = option(
        "warm",
        "Start from the shared tensors as they are, or at random.",
        choices=("warm", "random"),
    )
    gen_obj: str = option("lf", "What the generator looks for.", choices=("lf", "lf+kd"))
    mode: str = option(
        "server",
        "Distil at the server, or at the remaining clients.",
        choices=("server", "federated"),
    )
    rounds: int = option(4, "Rounds of mode=federated.", at_least=1)

    @property
    def signed_forget(self) -> float:
        """The weight of L_F in what the student minimises."""
        return self.forget if self.lf_sign == "pull" else -self.forget

    @property
    def iterations_per_round(self) -> int:
        """Iterations of a client in a round; together at least `iterations`."""
        return -(-self.iterations // self.rounds)


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

    def teacher(self, branch: Branch, x: Tensor) -> Observation:
        """What the old model of a client answers."""
        return self.lens.look({**self.old, **branch.personal}, x)

    def target_features(self, x: Tensor) -> list[Tensor]:
        """T_F: the personal features of every target."""
        return [branch.gate * self.teacher(branch, x).features for branch in self.targets]


@dataclass(frozen=True)
class Batch:
    """Generated inputs, the remaining clients that they are for, and the teachers' answers.

    `features` are those of the targets, `views` are of `branches`.
    """

    x: Tensor
    branches: Sequence[Branch]
    features: Sequence[Tensor]
    views: Sequence[Observation]


def answered(parts: Parts, branches: Sequence[Branch], x: Tensor) -> Batch:
    """These inputs with the answers of all teachers.

    Targets come first: the last bits of gradients depend on the order.
    """
    features = parts.target_features(x)
    return Batch(x, branches, features, [parts.teacher(branch, x) for branch in branches])


@dataclass(frozen=True)
class DistilState:
    """All that changes: student, generator, and the two moments of the generator's Adam."""

    student: Tensors
    generator: Tensors
    first: Tensors
    second: Tensors


def first_state(student: Tensors, generator: Tensors) -> DistilState:
    return DistilState(student, generator, zeros_like(generator), zeros_like(generator))


def iterate(
    parts: Parts, state: DistilState, options: DistilOptions, seed: int, number: int
) -> DistilState:
    """One batch: `student_steps` of the student, then one of the generator.

    `number` is the step of the generator's optimiser and the place of its random draws.
    """
    chosen = draw_remaining(parts.remaining, options.branches, seed, number)
    z = noise(options.batch, parts.dtype, seed, number).to(_device(state.generator))
    with torch.no_grad():
        batch = answered(parts, chosen, functional_call(parts.generator, state.generator, (z,)))
    student = state.student
    for _ in range(options.student_steps):
        student = student_step(parts, batch, student, options)
    slopes = generator_slopes(parts, batch, student, state.generator, z, options)
    moments = state.first, state.second
    adam = adam_step(state.generator, slopes, *moments, options.generator_lr, number)
    return DistilState(student, *adam)


def _device(tensors: Tensors) -> torch.device:
    return next(iter(tensors.values())).device


def draw_remaining(branches: Sequence[Branch], count: int, seed: int, number: int) -> list[Branch]:
    """Through whose parts the student is distilled this time."""
    stream = torch.Generator().manual_seed(derive_seed(seed, "branches", number))
    order = torch.randperm(len(branches), generator=stream, device="cpu")[:count]
    return [branches[index] for index in order.tolist()]


def student_step(parts: Parts, batch: Batch, student: Tensors, options: DistilOptions) -> Tensors:
    """One step of SGD on the student's loss."""
    leaves = _leaves(student)
    weights = Weights(options.signed_forget, options.beta, options.gamma)
    slopes = gradients(loss(parts, batch, leaves, weights, options.tau), leaves)
    rate = options.lr * min(1.0, options.clip / max(norm(slopes), _TINY))
    return {name: student[name] - rate * slopes[name] for name in student}


def generator_slopes(
    parts: Parts,
    batch: Batch,
    student: Tensors,
    generator: Tensors,
    z: Tensor,
    options: DistilOptions,
) -> Tensors:
    """Slopes for a step up what the student minimises, to harder inputs.

    Of L_F alone (ZeroFU), or of L_F + beta L_K (Mimir, eq. 19).
    """
    leaves = _leaves(generator)
    x = functional_call(parts.generator, leaves, (z,))
    beta = options.beta if options.gen_obj == "lf+kd" else 0.0
    if beta:
        batch = answered(parts, batch.branches, x)
    else:  # views without weight in the loss need not be asked for again with a way back to x
        batch = Batch(x, batch.branches, parts.target_features(x), batch.views)
    weights = Weights(options.signed_forget, beta, 0.0)
    return gradients(-loss(parts, batch, student, weights, options.tau), leaves)


@dataclass(frozen=True)
class Weights:
    """Of the three losses; a loss of weight 0 is not computed."""

    features: float
    outputs: float
    attention: float


def loss(
    parts: Parts, batch: Batch, student: Mapping[str, Tensor], weights: Weights, tau: float
) -> Tensor:
    """The mean over remaining clients, each through its own frozen personal part."""
    total = batch.x.new_zeros(())
    for branch, teacher in zip(batch.branches, batch.views, strict=True):
        view = parts.lens.look({**parts.start, **student, **branch.personal}, batch.x)
        own = branch.gate * view.features
        if weights.features:
            apart = [feature_distance(own, other) for other in batch.features]
            total = total + weights.features * torch.stack(apart).mean()
        if weights.outputs:
            total = total + weights.outputs * output_distance(view.logits, teacher.logits, tau)
        if weights.attention:
            total = total + weights.attention * attention_distance(view.maps, teacher.maps)
    return total / len(batch.branches)


def feature_distance(own: Tensor, other: Tensor) -> Tensor:
    """L_F: one minus the cosine of two features, the mean over the batch.

    >>> feature_distance(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]]))
    tensor(1.)
    """
    return (1 - F.cosine_similarity(own.flatten(1), other.flatten(1))).mean()


def output_distance(student: Tensor, teacher: Tensor, tau: float) -> Tensor:
    """L_K: tau^2 KL(teacher || student) of outputs at this temperature.

    >>> float(output_distance(torch.zeros(1, 2), torch.zeros(1, 2), tau=2.0))
    0.0
    """
    own, answers = F.log_softmax(student / tau, 1), F.log_softmax(teacher / tau, 1)
    return tau**2 * F.kl_div(own, answers, reduction="batchmean", log_target=True)


def attention_distance(student: Sequence[Tensor], teacher: Sequence[Tensor]) -> Tensor:
    """L_att: squared distances of maps, the mean over the batch and the layers; 0 without any."""
    if not student:
        return torch.zeros((), device="cpu")
    pairs = zip(student, teacher, strict=True)
    return torch.stack([(own - answers).square().sum(1).mean() for own, answers in pairs]).mean()


def gradients(value: Tensor, leaves: Tensors) -> Tensors:
    """With zeros for what the value does not depend on."""
    if not value.requires_grad:
        return zeros_like(leaves)
    slopes = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
    known = zip(leaves, slopes, strict=True)
    return zeros_like(leaves) | {name: slope for name, slope in known if slope is not None}


def zeros_like(tensors: Tensors) -> Tensors:
    return {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}


def _leaves(tensors: Tensors) -> Tensors:
    return {name: tensor.detach().requires_grad_() for name, tensor in tensors.items()}


_BETAS = (0.9, 0.999)
_EPSILON = 1e-8


def adam_step(
    tensors: Tensors, slopes: Tensors, first: Tensors, second: Tensors, lr: float, number: int
) -> tuple[Tensors, Tensors, Tensors]:
    """Step `number` (from 1): Kingma and Ba, ICLR 2015, Algorithm 1; tensors and both moments.

    On plain dictionaries of tensors, so moments can be saved between steps.

    >>> one, zero = {"w": torch.ones(1)}, {"w": torch.zeros(1)}
    >>> adam_step(one, {"w": torch.tensor([4.0])}, zero, zero, 0.1, 1)[0]
    {'w': tensor([0.9000])}
    """
    after, new_first, new_second = {}, {}, {}
    for name, slope in slopes.items():
        new_first[name] = first[name].lerp(slope, 1 - _BETAS[0])
        new_second[name] = second[name].lerp(slope.square(), 1 - _BETAS[1])
        mean = new_first[name] / (1 - _BETAS[0] ** number)
        spread = (new_second[name] / (1 - _BETAS[1] ** number)).sqrt() + _EPSILON
        after[name] = tensors[name] - lr * mean / spread
    return after, new_first, new_second
