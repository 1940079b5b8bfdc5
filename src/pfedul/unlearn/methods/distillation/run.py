"""Distillation of a run: at the server alone, or by the remaining clients in rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from pfedul.base.randomness import derive_seed, random_stream
from pfedul.base.tensors import Tensors, packed, part_of
from pfedul.personalization.base import Job
from pfedul.protocol import ClientResult
from pfedul.split import head_of
from pfedul.unlearn.context import Context
from pfedul.unlearn.methods.distillation.gates import (
    class_embeddings,
    completed,
    label_distribution,
    label_gate,
    one_input,
    trained_names,
)
from pfedul.unlearn.methods.distillation.generator import generator_for, parameters_of
from pfedul.unlearn.methods.distillation.lens import Lens, lens_on
from pfedul.unlearn.methods.distillation.loop import Branch, DistilState, Parts, iterate
from pfedul.unlearn.methods.distillation.losses import Moments, no_moments
from pfedul.unlearn.methods.distillation.options import DistilOptions
from pfedul.unlearn.training import options_from

Gates = Mapping[str, Tensor]
"""Client -> its factor for each feature; who is not in it has none."""


def distilled(ctx: Context, options: DistilOptions, gates: Gates) -> Tensors:
    """The shared tensors of the student."""
    if options.mode == "federated":
        return _in_rounds(ctx, options, gates)
    return _at_server(ctx, options, gates)


# What is known of the run


def head_name(ctx: Context, model: nn.Module) -> str:
    return ctx.head or head_of(model, ctx.settings.head)


def input_like(ctx: Context) -> Tensor:
    with random_stream(ctx.seed, "shape"):  # a user's Dataset may draw from the common streams
        return one_input(ctx.train_samples(ctx.remaining[0]))


def label_gates(ctx: Context) -> dict[str, Tensor]:
    """Every client's gate from its label distribution and its own head."""
    model = ctx.model()
    head = head_name(ctx, model)
    gates = {}
    for client in (*ctx.targets, *ctx.remaining):
        personal = ctx.personal(client)
        if client in ctx.remaining:
            personal = ctx.split.beside_shared(personal)
        rows = class_embeddings(model, head, {**ctx.shared, **personal})
        samples = ctx.train_samples(client)
        with random_stream(ctx.seed, "labels", client):
            gates[client] = label_gate(label_distribution(samples, len(rows)), rows)
    return gates


def check(ctx: Context, linear_head: bool) -> None:
    """Refuse models and data that distillation cannot work with."""
    model = ctx.model()
    head = head_name(ctx, model)
    input_like(ctx)
    if linear_head:
        class_embeddings(model, head, model.state_dict())


def notes(ctx: Context, options: DistilOptions, gates: Gates) -> tuple[str, ...]:
    """What a user should know of this very removal."""
    found = []
    if options.student_init == "warm" and not _features_differ(ctx, gates):
        found.append(
            "under this condition the features of the targets are those of all others, so that "
            "there was nothing to forget by: shared tensors are as they were, but for rounding"
        )
    without = [client for client in ctx.targets if gates and client not in gates]
    if without:
        found.append(f"{', '.join(without)} sent no prompt and counts with plain features")
    return tuple(found)


def _features_differ(ctx: Context, gates: Gates) -> bool:
    """Whether anything makes the targets' features other than those of who remains."""
    if ctx.split.personal_features(head_name(ctx, ctx.model())):
        return True
    pairs = [(gates.get(u), gates.get(c)) for u in ctx.targets for c in ctx.remaining]
    return any(
        (one is None) != (two is None)
        or (one is not None and two is not None and not torch.allclose(one, two))
        for one, two in pairs
    )


def _seed(ctx: Context) -> int:
    return ctx.generator("distillation").initial_seed()


def _start(ctx: Context, options: DistilOptions) -> Tensors:
    return dict(ctx.shared) if options.student_init == "warm" else ctx.initial


# At the server


def _at_server(ctx: Context, options: DistilOptions, gates: Gates) -> Tensors:
    seed, model, start = _seed(ctx), ctx.model(), _start(ctx, options)
    names = trained_names(model, ctx.split)
    with _parts(ctx, model, start, gates, seed) as parts:

        def step(number: int, noted: Tensors) -> Tensors:
            return _note(iterate(parts, _state(noted), options, seed, number))

        first = first_state({name: start[name] for name in names}, parameters_of(parts.generator))
        last = _state(ctx.steps("distillation", options.iterations, _note(first), step))
    return completed(model, ctx.split, start, last.student)


@contextmanager
def _parts(
    ctx: Context, model: nn.Module, start: Tensors, gates: Gates, seed: int
) -> Iterator[Parts]:
    split, like = ctx.split, input_like(ctx)
    no_gate = torch.ones((), dtype=like.dtype)
    targets = [Branch(ctx.personal(u), gates.get(u, no_gate)) for u in ctx.targets]
    remaining = [
        Branch(split.beside_shared(ctx.personal(client)), gates.get(client, no_gate))
        for client in ctx.remaining
    ]
    generator = generator_for(like.shape, like.dtype, seed)
    with lens_on(model, head_name(ctx, model)) as lens:
        yield Parts(lens, generator, dict(ctx.shared), start, targets, remaining, like.dtype)


def first_state(student: Tensors, generator: Tensors) -> DistilState:
    return DistilState(student, generator, no_moments(generator))


def _note(state: DistilState) -> Tensors:
    return packed(
        student=state.student,
        generator=state.generator,
        first=state.moments.first,
        second=state.moments.second,
    )


def _state(noted: Tensors) -> DistilState:
    moments = Moments(part_of(noted, "first"), part_of(noted, "second"))
    return DistilState(part_of(noted, "student"), part_of(noted, "generator"), moments)


# By the remaining clients


def _in_rounds(ctx: Context, options: DistilOptions, gates: Gates) -> Tensors:
    """Rounds of local distillation; student and generator are averaged after each.

    The targets' personal parts are sent to all remaining clients: T_F is made of them. So are
    the gates of all, of which each client uses its own: a round is one message to everybody.
    """
    seed, model, start = _seed(ctx), ctx.model(), _start(ctx, options)
    like = input_like(ctx)
    targets = {f"{number}": ctx.personal(u) for number, u in enumerate(ctx.targets)}
    own_gates = {client: gates[client] for client in ctx.remaining if client in gates}
    target_gates = {str(n): gates[u] for n, u in enumerate(ctx.targets) if u in gates}
    constant = packed(start=start, gates=own_gates, leaving=target_gates, **_of(targets))
    plain = {**asdict(options), "seed": seed, "head": head_name(ctx, model)}
    plain["targets"] = len(targets)

    def step(number: int, state: Tensors) -> Tensors:
        extra = {**constant, **state}
        how = {**plain, "round": number}
        return ctx.mean("distil", ctx.remaining, ctx.shared, how, extra, like=state)

    student = {name: start[name] for name in trained_names(model, ctx.split)}
    fresh = parameters_of(generator_for(like.shape, like.dtype, seed))
    first = packed(student=student, generator=fresh)
    last = ctx.steps("distillation", options.rounds, first, step)
    return completed(model, ctx.split, start, part_of(last, "student"))


def _of(targets: Mapping[str, Tensors]) -> dict[str, Tensors]:
    return {f"target{number}": tensors for number, tensors in targets.items()}


# At a client, through its own personal part; no sample of it is used. All clients draw the same
# noise: one seed for a round.


def distil(job: Job, how: Mapping[str, Any], extra: Tensors) -> ClientResult:
    """The iterations of one round; sends back student and generator."""
    options = options_from(DistilOptions, how)
    seed = derive_seed(how["seed"], "round", how["round"])
    generator = part_of(extra, "generator")
    state = DistilState(part_of(extra, "student"), generator, no_moments(generator))
    with lens_on(job.model, how["head"]) as lens:
        parts = _parts_at_client(job, lens, how, extra)
        for number in range(1, options.iterations_per_round + 1):
            state = iterate(parts, state, options, seed, number)
    return ClientResult(packed(student=state.student, generator=state.generator))


def _parts_at_client(job: Job, lens: Lens, how: Mapping[str, Any], extra: Tensors) -> Parts:
    like = one_input(job.samples)
    no_gate = torch.ones((), dtype=like.dtype)
    gate = part_of(extra, "gates").get(job.client, no_gate)
    leaving = part_of(extra, "leaving")
    targets = [
        Branch(part_of(extra, f"target{number}"), leaving.get(str(number), no_gate))
        for number in range(how["targets"])
    ]
    mine = {name: t.clone() for name, t in job.split.beside_shared(job.personal).items()}
    own = Branch(mine, gate)
    generator = generator_for(like.shape, like.dtype, how["seed"])
    start = part_of(extra, "start")
    old = {name: tensor.clone() for name, tensor in job.shared.items()}
    return Parts(lens, generator, old, start, targets, [own], like.dtype)


DISTIL = {"distil": distil}
"""The client function of both methods."""
