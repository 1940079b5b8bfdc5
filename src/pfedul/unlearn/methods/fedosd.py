"""FedOSD: forget along a direction that no remaining client's gradient sees (AAAI 2025).

In each unlearning round the targets descend on a bounded loss that is low where
they are not recognised, and the remaining clients compute an ordinary update; the
targets' update is projected onto what is orthogonal to all of the others', given
its old length again, and applied. Post-training then lets the remaining clients
train on, without the part of their updates along the way back to the old model.
Normalisation statistics do not move, so all gradients are of one and the same function.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pfedul.aggregation.mean import StreamingMean
from pfedul.base.options import option
from pfedul.base.tensors import Tensors
from pfedul.base.vectors import flat, orthogonal_part, unflat
from pfedul.unlearn.base import About, Method, Needs, Result
from pfedul.unlearn.context import Context
from pfedul.unlearn.training import TRAIN_SHARED, SharedTraining

HEALTH = "(health)"
"""In the state of the unlearning rounds: ||d|| / ||g_u|| of each of them, before rescaling."""

NOTHING_LEFT = 1e-6
"""A direction shorter than this share of the targets' update is rounding, not a direction."""


@dataclass(frozen=True)
class OSDOptions:
    """Unlearning, then recovery; without momentum a rate of 1 is less than an ordinary step."""

    rounds: int = option(10, "Rounds of unlearning.", at_least=1)
    lr: float = option(1.0, "Rate of unlearning, as a share of that of training.", above=0)
    recovery: int = option(10, "Rounds of post-training over the remaining clients.", at_least=0)
    recovery_lr: float = option(0.1, "Rate of post-training, as a share of training's.", above=0)
    epochs: int = option(1, "Local epochs of a round.", at_least=1)


def unlearn(ctx: Context, options: OSDOptions) -> Result:
    away, health = unlearned(ctx, options)
    return Result(recovered(ctx, away, options), notes=_notes(health, options))


def unlearned(ctx: Context, options: OSDOptions) -> tuple[Tensors, list[float]]:
    """The shared tensors after the unlearning rounds, and the health number of each."""
    rate = options.lr * ctx.settings.lr

    def step(_number: int, state: Tensors) -> Tensors:
        shared, health = _parts(state)
        if len(health) and float(health[-1]) <= NOTHING_LEFT:
            return state
        target, rows = updates(ctx, shared, rate, options.epochs)
        direction, share = osd_direction(target, rows)
        start = flat(shared, ctx.parameters).to(torch.float64)
        moved = unflat(start - rate * direction, shared, ctx.parameters)
        moved = ctx.tied({**shared, **moved})
        return {**moved, HEALTH: torch.cat([health, torch.tensor([share], device="cpu").double()])}

    state = {**ctx.shared, HEALTH: torch.zeros(0, dtype=torch.float64, device="cpu")}
    shared, health = _parts(ctx.steps("unlearning", options.rounds, state, step))
    return shared, health.tolist()


def _parts(state: Tensors) -> tuple[Tensors, Tensor]:
    return {name: tensor for name, tensor in state.items() if name != HEALTH}, state[HEALTH]


def updates(ctx: Context, shared: Tensors, rate: float, epochs: int) -> tuple[Tensor, Tensor]:
    """The targets' mean update g_u, and those of the remaining clients as rows.

    An update is (before - after) / rate. All rows are in memory at once: four bytes for
    each shared parameter and remaining client.
    """
    start = flat(shared, ctx.parameters)
    how = {"epochs": epochs, "lr": rate, "momentum": 0.0, "statistics": False}
    total, samples = torch.zeros(len(start), dtype=torch.float64, device="cpu"), 0
    for reply in ctx.ask("train-shared", ctx.targets, shared, {**how, "objective": "unlearn"}):
        total += (start - flat(reply.shared, ctx.parameters)).to(torch.float64) * reply.samples
        samples += reply.samples
    replies = ctx.ask("train-shared", ctx.remaining, shared, how, same_round=True)
    rows = [(start - flat(reply.shared, ctx.parameters)) / rate for reply in replies]
    return total / (samples * rate), torch.stack(rows)


def osd_direction(target: Tensor, rows: Tensor) -> tuple[Tensor, float]:
    """The targets' update orthogonal to every row, as long as it was; and the share that was left.

    Where nothing is left, there is no direction that spares the others: a zero, and 0.
    """
    rest = orthogonal_part(target, rows)
    length, left = float(target.to(torch.float64).norm()), float(rest.norm())
    if left <= NOTHING_LEFT * length:
        return torch.zeros_like(rest), 0.0
    return rest * (length / left), left / length


def recovered(ctx: Context, shared: Tensors, options: OSDOptions) -> Tensors:
    """Rounds over the remaining clients that go neither back nor further on the way gone."""
    rate = options.recovery_lr * ctx.settings.lr
    how = SharedTraining(options.epochs, lr=rate, momentum=0.0, statistics=False)
    names, origin = ctx.parameters, flat(ctx.shared, ctx.parameters)

    def step(_number: int, before: Tensors) -> Tensors:
        start = flat(before, names)
        way = (start - origin).to(torch.float64)
        total: StreamingMean | None = None
        for reply in ctx.ask("train-shared", ctx.remaining, before, how):
            update = without(start - flat(reply.shared, names), way)
            bent = ctx.tied({**reply.shared, **unflat(start - update, before, names)})
            total = total or StreamingMean(bent)
            total.add(bent, reply.samples)
        assert total is not None
        return total.result()

    return ctx.steps("recovery", options.recovery, shared, step)


def without(update: Tensor, way: Tensor) -> Tensor:
    """The update less its component along `way`, of either sign, as long as it was.

    >>> without(torch.tensor([3.0, 4.0]), torch.tensor([0.0, 2.0]))
    tensor([5., 0.], dtype=torch.float64)
    """
    exact, along = update.to(torch.float64), way.to(torch.float64)
    square = float(along @ along)
    if not square:
        return exact
    rest = exact - float(exact @ along) / square * along
    length, left = float(exact.norm()), float(rest.norm())
    return rest * (length / left) if left > NOTHING_LEFT * length else torch.zeros_like(rest)


def _notes(health: list[float], options: OSDOptions) -> tuple[str, ...]:
    played = [share for share in health if share]
    mean = sum(played) / len(played) if played else 0.0
    notes = [
        f"FedOSD: {mean:.1%} of the target's update was orthogonal to all others on average "
        f"(least: {min(health):.1%}) before it was given its old length"
    ]
    if len(played) < options.rounds:
        notes.append(
            f"FedOSD stopped after {len(played)} of {options.rounds} unlearning rounds: no part "
            "of the target's update was left that the others do not see"
        )
    return tuple(notes)


FEDOSD = Method(
    name="fedosd",
    summary="unlearn along what is orthogonal to all remaining clients' updates",
    unlearn=unlearn,
    about=About(
        paper="Pan et al., AAAI 2025",
        who="the targets and all remaining clients, then all remaining clients",
        rounds="10 (rounds) + 10 (recovery)",
        memory="nothing; while it runs, four bytes for each shared parameter and client",
        avoids=(
            "the code keeps singular values near zero in its pseudo-inverse, and the README's "
            "recovery rate of 1e-6 moves nothing"
        ),
    ),
    options=OSDOptions,
    needs=Needs(target=True),
    client=TRAIN_SHARED,
)
