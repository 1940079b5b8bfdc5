"""SIFU: back to the last model that the target hardly touched, noise, and rounds without it.

Fraboni et al., AISTATS 2024. Psi(n, u) bounds how far client u moved model n; T_u is the
last n with Psi(n, u) <= Psi* = epsilon sigma / sqrt(2 ln(1.25 / delta)). The server goes
back to the model of round T_u, adds N(0, sigma^2) to every shared parameter, and the
remaining clients train on to the round of the request.

The bound covers the parameters that get noise, not buffers. It covers the rounds after the noise
only if these depend on nothing else that has seen the target (FedAvg, Ditto).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pfedul.base.options import option
from pfedul.base.tensors import Tensors
from pfedul.records.psi import begun_after, model_after, read_psi
from pfedul.split import is_normalisation
from pfedul.store.tables import joined_before
from pfedul.unlearn.base import About, Method, Needs, Result
from pfedul.unlearn.context import Context, never_took_part
from pfedul.unlearn.training import TRAIN_SHARED, fine_tuned, with_noise


@dataclass(frozen=True)
class SifuOptions:
    """The rounds after the noise."""

    rounds: int | None = option(
        None,
        "Rounds over the remaining clients; as many as were gone back, at least 1.",
        at_least=0,
    )


def unlearn(ctx: Context, options: SifuOptions) -> Result:
    back_to, now = _round_to_go_back_to(ctx), ctx.rounds
    start = with_noise(ctx, _model_of(ctx, back_to), ctx.settings.psi_sigma)
    # Noise alone would be left as it is where nothing was gone back: one round mends it.
    rounds = max(1, now - back_to) if options.rounds is None else options.rounds
    covered = _covered(ctx, start, rounds)
    shared = fine_tuned(ctx, start, rounds)
    return Result(shared, notes=(*_place(back_to, now), covered, *_limits(ctx)))


def _round_to_go_back_to(ctx: Context) -> int:
    """The earliest of the targets' places: there Psi of none of them is above the bound."""
    found = [ctx.record(read_psi, target) for target in ctx.targets]
    places = [psi.back_to for psi in found if psi is not None and psi.back_to is not None]
    return min([ctx.rounds, *places])


def _model_of(ctx: Context, number: int) -> Tensors:
    if number == ctx.rounds:
        return dict(ctx.shared)
    return ctx.record(model_after, number)


def _place(back_to: int, now: int) -> Sequence[str]:
    if back_to == 0:
        return ["back to round 0, before training: this is retraining, with noise at its start"]
    if back_to == now:
        return ["the bound was never passed: noise was added to the model as it is"]
    return [f"back to the model after round {back_to} of {now}"]


def _covered(ctx: Context, start: Tensors, rounds: int) -> str:
    """What (epsilon, delta) is about here, and what it is not."""
    split, words = ctx.split, "(epsilon, delta), where losses are convex, covers"
    moved = moved_buffers(ctx, start)
    parts = [] if set(split.personal) <= set(split.shared) else ["personal parts"]
    parts += ["buffers"] if _read_in_training(ctx, moved) else []
    if rounds and parts:
        return (
            f"{words} the parameters of the noised start alone: the {rounds} rounds after it train "
            f"through {' and '.join(parts)} that come from rounds with the target, so neither "
            "the shared tensors nor personal parts as they are now are covered"
        )
    limits = [_STATISTICS] if moved else []
    limits += ["personal parts of the others are not covered"] if split.personal else []
    return "; ".join([f"{words} the shared parameters", *limits])


_STATISTICS = (
    "normalisation statistics and other buffers are not covered: they get no noise, and no bound "
    "counts them"
)


def moved_buffers(ctx: Context, start: Tensors) -> list[str]:
    """Shared tensors without noise that are not as before training: they may know the target.

    Whole numbers count batches, which no method changes.
    """
    parameters, initial = ctx.split.parameter_names, ctx.initial
    floating = [name for name, tensor in start.items() if tensor.is_floating_point()]
    buffers = [name for name in floating if name not in parameters]
    return [name for name in buffers if not torch.equal(start[name], initial[name])]


def _read_in_training(ctx: Context, buffers: Sequence[str]) -> bool:
    """Whether rounds depend on these buffers: normalisation trains on those of the batch."""
    model = ctx.model()
    owners = [model.get_submodule(name.rpartition(".")[0]) for name in buffers]
    return not all(is_normalisation(owner) for owner in owners)


def _limits(ctx: Context) -> Sequence[str]:
    """What the record does not know of."""
    begun = ctx.record(begun_after) or 0
    idle = [target for target in ctx.targets if ctx.record(read_psi, target) is None]
    notes = list(never_took_part(idle))
    older = ctx.history(joined_before, begun) & set(ctx.targets)
    if older:
        notes.append(
            f"psi began again after round {begun}, with an earlier request: what "
            f"{', '.join(sorted(older))} did before is in every model, and no bound holds for it"
        )
    return notes


SIFU = Method(
    name="sifu",
    summary="back to the last model that the target hardly touched, noise, and rounds without it",
    unlearn=unlearn,
    about=About(
        paper="Fraboni et al., AISTATS 2024",
        who="all remaining clients",
        rounds="as many as were gone back, and at least 1 (rounds)",
        memory=(
            "one number for each client and round, and at most one copy of the shared tensors for "
            "each of them"
        ),
        guarantee=(
            "(epsilon, delta) under convexity: for the shared parameters of the noised start, "
            "and after further rounds under FedAvg and Ditto only, as rounds elsewhere train "
            "through personal parts that have seen the target; personal parts of the others are "
            "never covered, nor are normalisation statistics, which get no noise"
        ),
        avoids="sampled rounds reckoned with the weights of all clients, which understates Psi",
    ),
    options=SifuOptions,
    needs=Needs(records=("psi",)),
    client=TRAIN_SHARED,
    check=lambda ctx, _options: ctx.require_record("psi"),
)
