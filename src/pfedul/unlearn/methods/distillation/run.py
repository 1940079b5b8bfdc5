"""Distillation of a run: at the server alone, or by the remaining clients in rounds.

ZeroFU and Mimir train a module along with the federation that makes features of a client's model
that client's own. Runs here are trained without it. Its place is taken by a gate, one factor for
each feature, from the client's label distribution (ZeroFU) or from a prompt (Mimir). Gates shape
L_F only; outputs are compared as they are deployed. Without any gate L_F would often be zero by
construction: under FedAvg, FedPer and FedRep features do not depend on whose model it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any

import torch
from torch import Tensor, nn

from pfedul.base.randomness import derive_seed, random_stream
from pfedul.base.tensors import Tensors, load_tensors, packed, part_of, read_tensors
from pfedul.data.samples import Samples, batch_of
from pfedul.errors import PfedulError
from pfedul.personalization.base import Job
from pfedul.protocol import ClientResult
from pfedul.split import Split, head_of
from pfedul.unlearn.context import Context
from pfedul.unlearn.methods.distillation.generator import generator_for, parameters_of
from pfedul.unlearn.methods.distillation.lens import Lens, lens_on
from pfedul.unlearn.methods.distillation.loop import (
    Branch,
    DistilOptions,
    DistilState,
    Parts,
    first_state,
    iterate,
)
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


def one_input(samples: Samples) -> Tensor:
    """A single input, for its shape and type alone."""
    x, _ = samples.batch(torch.zeros(1, dtype=torch.int64, device="cpu"))
    if not isinstance(x, Tensor) or not x.is_floating_point():
        what = "whole numbers" if isinstance(x, Tensor) else "several tensors"
        raise PfedulError(
            f"The inputs of this run are {what}, which a generator cannot draw; "
            "choose another method ('pfedul methods')."
        )
    return x[0]


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


def class_embeddings(model: nn.Module, head: str, tensors: Tensors) -> Tensor:
    """The rows of the head's weights: what stands for each class among the features."""
    if not isinstance(model.get_submodule(head), nn.Linear):
        raise PfedulError(
            f"The condition 'labeldist' needs a linear head, which '{head}' is not; "
            "use condition=none."
        )
    return tensors[f"{head}.weight"]


def label_distribution(samples: Samples, classes: int) -> Tensor:
    """The share of each class among a client's samples."""
    _, labels = batch_of(samples)
    counts = torch.bincount(labels, minlength=classes).to(torch.float64)
    return counts / counts.sum()


def label_gate(distribution: Tensor, embeddings: Tensor) -> Tensor:
    """1 + p / max|p|, where p is the mean of class embeddings under the distribution.

    ZeroFU's p_i and its (W(p_i) + 1), with the rows of the head as embeddings and a
    plain scaling in the place of the trained W. No factor is negative, so features
    behind a ReLU stay as they are under ZeroFU's own.

    >>> label_gate(torch.tensor([1.0, 0.0]), torch.tensor([[2.0, -1.0], [0.0, 5.0]]))
    tensor([2.0000, 0.5000])
    """
    mean = distribution.to(embeddings.dtype) @ embeddings
    largest = mean.abs().max()
    return 1 + mean / largest if largest > 0 else torch.ones_like(mean)


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
            "under this condition the features of the targets are those of all others, so "
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


def _trained(model: nn.Module, split: Split, start: Tensors) -> Tensors:
    """The student at first: what the model's author did not freeze; tied ones by one name."""
    named = model.named_parameters()
    return {name: start[name] for name, p in named if name in split.shared and p.requires_grad}


def _completed(model: nn.Module, split: Split, start: Tensors, student: Tensors) -> Tensors:
    """All shared tensors, tied names included, with the student's in their places."""
    load_tensors(model, start, student)
    return read_tensors(model, split.shared)


# At the server


def _at_server(ctx: Context, options: DistilOptions, gates: Gates) -> Tensors:
    seed, model, start = _seed(ctx), ctx.model(), _start(ctx, options)
    with _parts(ctx, model, start, gates, seed) as parts:

        def step(number: int, noted: Tensors) -> Tensors:
            state = DistilState(*(part_of(noted, spec.name) for spec in fields(DistilState)))
            return packed(**vars(iterate(parts, state, options, seed, number)))

        student = _trained(model, ctx.split, start)
        first = packed(**vars(first_state(student, parameters_of(parts.generator))))
        last = ctx.steps("distillation", options.iterations, first, step)
    return _completed(model, ctx.split, start, part_of(last, "student"))


@contextmanager
def _parts(
    ctx: Context, model: nn.Module, start: Tensors, gates: Gates, seed: int
) -> Iterator[Parts]:
    split, like = ctx.split, input_like(ctx)
    no_gate = like.new_ones(())
    targets = [Branch(ctx.personal(u), gates.get(u, no_gate)) for u in ctx.targets]
    remaining = [
        Branch(split.beside_shared(ctx.personal(client)), gates.get(client, no_gate))
        for client in ctx.remaining
    ]
    generator = generator_for(like.shape, like.dtype, seed)
    with lens_on(model, head_name(ctx, model)) as lens:
        yield Parts(lens, generator, dict(ctx.shared), start, targets, remaining, like.dtype)


# By the remaining clients


def _in_rounds(ctx: Context, options: DistilOptions, gates: Gates) -> Tensors:
    """Rounds of local distillation; student and generator are averaged after each.

    The targets' personal parts are sent to all remaining clients: T_F is made of them. So are
    the gates of all, of which each client uses its own: a round is one message to everybody.
    """
    seed, model, start = _seed(ctx), ctx.model(), _start(ctx, options)
    like = input_like(ctx)
    targets = {f"target{number}": ctx.personal(u) for number, u in enumerate(ctx.targets)}
    own_gates = {client: gates[client] for client in ctx.remaining if client in gates}
    target_gates = {str(n): gates[u] for n, u in enumerate(ctx.targets) if u in gates}
    constant = packed(start=start, gates=own_gates, leaving=target_gates, **targets)
    plain = {**asdict(options), "seed": seed, "head": head_name(ctx, model)}
    plain["targets"] = len(targets)

    def step(number: int, state: Tensors) -> Tensors:
        extra = {**constant, **state}
        how = {**plain, "round": number}
        return ctx.mean("distil", ctx.remaining, ctx.shared, how, extra, like=state)

    fresh = parameters_of(generator_for(like.shape, like.dtype, seed))
    first = packed(student=_trained(model, ctx.split, start), generator=fresh)
    last = ctx.steps("distillation", options.rounds, first, step)
    return _completed(model, ctx.split, start, part_of(last, "student"))


# At a client, through its own personal part; no sample of it is used. All clients draw the same
# noise: one seed for a round.


def distil(job: Job, how: Mapping[str, Any], extra: Tensors) -> ClientResult:
    """The iterations of one round; sends back student and generator."""
    options = options_from(DistilOptions, how)
    seed = derive_seed(how["seed"], "round", how["round"])
    state = first_state(part_of(extra, "student"), part_of(extra, "generator"))
    with lens_on(job.model, how["head"]) as lens:
        parts = _parts_at_client(job, lens, how, extra)
        for number in range(1, options.iterations_per_round + 1):
            state = iterate(parts, state, options, seed, number)
    return ClientResult(packed(student=state.student, generator=state.generator))


def _parts_at_client(job: Job, lens: Lens, how: Mapping[str, Any], extra: Tensors) -> Parts:
    like = one_input(job.samples)
    no_gate = like.new_ones(())
    gate = part_of(extra, "gates").get(job.client, no_gate)
    leaving = part_of(extra, "leaving")
    targets = [
        Branch(part_of(extra, f"target{number}"), leaving.get(str(number), no_gate))
        for number in range(how["targets"])
    ]
    mine = {name: t.clone() for name, t in job.split.beside_shared(job.personal).items()}
    generator = generator_for(like.shape, like.dtype, how["seed"]).to(like.device)
    start = part_of(extra, "start")
    old = {name: tensor.clone() for name, tensor in job.shared.items()}
    return Parts(lens, generator, old, start, targets, [Branch(mine, gate)], like.dtype)


DISTIL = {"distil": distil}
"""The client function of both methods."""
