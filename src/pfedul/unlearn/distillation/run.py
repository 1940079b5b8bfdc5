"""Distillation of a run: at the server alone, or by the remaining clients in rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict

import torch
from torch import Tensor, nn

from pfedul.base.randomness import random_stream
from pfedul.base.tensorfile import read_file
from pfedul.base.tensors import Tensors
from pfedul.split import head_of
from pfedul.unlearn.context import Work
from pfedul.unlearn.distillation.adam import Moments, no_moments
from pfedul.unlearn.distillation.conditions import (
    class_embeddings,
    label_distribution,
    label_gate,
)
from pfedul.unlearn.distillation.generator import generator_for, parameters_of
from pfedul.unlearn.distillation.lens import lens_on
from pfedul.unlearn.distillation.loop import Cast, Side, State, iterate
from pfedul.unlearn.distillation.options import DistilOptions
from pfedul.unlearn.distillation.packing import packed, part_of
from pfedul.unlearn.distillation.parts import completed, one_input, trained_names

Gates = Mapping[str, Tensor]
"""Client -> its factor for each feature; who is not in it has none."""


def distilled(work: Work, options: DistilOptions, gates: Gates) -> Tensors:
    """The shared tensors of the student."""
    if options.mode == "federated":
        return _in_rounds(work, options, gates)
    return _at_server(work, options, gates)


# What is known of the run


def head_name(work: Work, model: nn.Module) -> str:
    federation = work.federation
    return federation.bench.head or head_of(model, federation.settings.head)


def personal_of(work: Work, client: str) -> Tensors:
    path = work.federation.locate_personal(client)
    return {} if path is None else read_file(path)


def input_like(work: Work) -> Tensor:
    with random_stream(work.seed, "shape"):  # a user's Dataset may draw from the common streams
        return one_input(work.federation.bench.data[work.remaining[0]].train)


def label_gates(work: Work) -> dict[str, Tensor]:
    """Every client's gate from its label distribution and its own head."""
    model = work.federation.bench.build_model()
    head = head_name(work, model)
    gates = {}
    for client in (*work.targets, *work.remaining):
        personal = personal_of(work, client)
        if client in work.remaining:
            personal = work.federation.bench.split.beside_shared(personal)
        rows = class_embeddings(model, head, {**work.shared, **personal})
        samples = work.federation.bench.data[client].train
        with random_stream(work.seed, "labels", client):
            gates[client] = label_gate(label_distribution(samples, len(rows)), rows)
    return gates


def check(work: Work, linear_head: bool) -> None:
    """Refuse models and data that distillation cannot work with."""
    model = work.federation.bench.build_model()
    head = head_name(work, model)
    input_like(work)
    if linear_head:
        class_embeddings(model, head, model.state_dict())


def notes(work: Work, options: DistilOptions, gates: Gates) -> tuple[str, ...]:
    """What a user should know of this very removal."""
    found = []
    if options.student_init == "warm" and not _tells_apart(work, gates):
        found.append(
            "under this condition the features of the targets are those of all others, so that "
            "there was nothing to forget by: shared tensors are as they were, but for rounding"
        )
    without = [client for client in work.targets if gates and client not in gates]
    if without:
        found.append(f"{', '.join(without)} sent no prompt and counts with plain features")
    return tuple(found)


def _tells_apart(work: Work, gates: Gates) -> bool:
    """Whether anything makes the targets' features other than those of who remains."""
    if work.federation.bench.personalization.name in {"ditto", "fedbn"}:
        return True
    pairs = [(gates.get(u), gates.get(c)) for u in work.targets for c in work.remaining]
    return any(
        (one is None) != (two is None)
        or (one is not None and two is not None and not torch.allclose(one, two))
        for one, two in pairs
    )


def _seed(work: Work) -> int:
    return work.generator("distillation").initial_seed()


def _start(work: Work, options: DistilOptions) -> Tensors:
    return dict(work.shared) if options.student_init == "warm" else work.initial


# At the server


def _at_server(work: Work, options: DistilOptions, gates: Gates) -> Tensors:
    bench, seed = work.federation.bench, _seed(work)
    model, start = bench.build_model(), _start(work, options)
    names = trained_names(model, bench.split)
    with _cast(work, model, start, gates, seed) as cast:

        def step(number: int, noted: Tensors) -> Tensors:
            return _note(iterate(cast, _state(noted), options, seed, number))

        first = first_state({name: start[name] for name in names}, parameters_of(cast.generator))
        last = _state(work.steps("distillation", options.iterations, _note(first), step))
    return completed(model, bench.split, start, last.student)


@contextmanager
def _cast(work: Work, model: nn.Module, start: Tensors, gates: Gates, seed: int) -> Iterator[Cast]:
    split, like = work.federation.bench.split, input_like(work)
    no_gate = torch.ones((), dtype=like.dtype)
    leavers = [Side(personal_of(work, u), gates.get(u, no_gate)) for u in work.targets]
    stayers = [
        Side(split.beside_shared(personal_of(work, client)), gates.get(client, no_gate))
        for client in work.remaining
    ]
    generator = generator_for(like.shape, like.dtype, seed)
    with lens_on(model, head_name(work, model)) as lens:
        yield Cast(lens, generator, dict(work.shared), start, leavers, stayers, like.dtype)


def first_state(student: Tensors, generator: Tensors) -> State:
    return State(student, generator, no_moments(generator))


def _note(state: State) -> Tensors:
    return packed(
        student=state.student,
        generator=state.generator,
        first=state.moments.first,
        second=state.moments.second,
    )


def _state(noted: Tensors) -> State:
    moments = Moments(part_of(noted, "first"), part_of(noted, "second"))
    return State(part_of(noted, "student"), part_of(noted, "generator"), moments)


# By the remaining clients


def _in_rounds(work: Work, options: DistilOptions, gates: Gates) -> Tensors:
    """Rounds of local distillation; student and generator are averaged after each.

    The targets' personal parts are sent to all remaining clients: T_F is made of them. So are
    the gates of all, of which each client uses its own: a round is one message to everybody.
    """
    bench, seed = work.federation.bench, _seed(work)
    model, start = bench.build_model(), _start(work, options)
    like = input_like(work)
    leavers = {f"{number}": personal_of(work, u) for number, u in enumerate(work.targets)}
    own_gates = {client: gates[client] for client in work.remaining if client in gates}
    target_gates = {str(n): gates[u] for n, u in enumerate(work.targets) if u in gates}
    constant = packed(start=start, gates=own_gates, leaving=target_gates, **_of(leavers))
    told = {**asdict(options), "seed": seed, "head": head_name(work, model)}
    told["leavers"] = len(leavers)

    def step(number: int, state: Tensors) -> Tensors:
        extra = {**constant, **state}
        return work.mean("distil", work.remaining, work.shared, {**told, "round": number}, extra)

    student = {name: start[name] for name in trained_names(model, bench.split)}
    fresh = parameters_of(generator_for(like.shape, like.dtype, seed))
    first = packed(student=student, generator=fresh)
    last = work.steps("distillation", options.rounds, first, step)
    return completed(model, bench.split, start, part_of(last, "student"))


def _of(leavers: Mapping[str, Tensors]) -> dict[str, Tensors]:
    return {f"leaver{number}": tensors for number, tensors in leavers.items()}
