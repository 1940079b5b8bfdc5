"""PGA: projected gradient ascent at the target, then rounds on the others (Halimi et al., 2022).

The reference is the last round without the target's share in it. From there the target ascends on
its own samples, through its own personal part, with clipped gradients. Each step ends inside a
ball round the reference, whose squared radius is a third of the mean squared distance to ten
random models. It stops once it is far enough from the target's last model, relative to the
distance at the start, or after `ascent` passes. Then follow rounds of the remaining clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pfedul.aggregation.mean import StreamingMean
from pfedul.base.options import option
from pfedul.base.randomness import derive_seed
from pfedul.base.tensors import Tensors, read_tensors
from pfedul.base.vectors import square_distance
from pfedul.errors import PfedulError
from pfedul.personalization.base import Job
from pfedul.protocol import ClientResult
from pfedul.records.base import round_residual
from pfedul.records.uploads import last_upload
from pfedul.store.paths import SHARED_FILE
from pfedul.store.tables import digest_of, first_round_of, mean_digest, participants_of
from pfedul.unlearn.base import About, Method, Needs, Result
from pfedul.unlearn.context import Context
from pfedul.unlearn.training import (
    TRAIN_SHARED,
    SharedTraining,
    fine_tuned,
    options_from,
    run,
    shared_model,
)

REPORT = "(report)"
"""In the state of the ascent, for each target: its steps, those that were bound, if it stopped."""

RANDOM_MODELS = 10
SHARE_OF_DISTANCE = 1 / 3

Uploads = Mapping[str, tuple[int, Tensors]]
"""Target -> the round of its last upload, and the shared tensors in it."""


@dataclass(frozen=True)
class PGAOptions:
    """The ascent, where it stops, and the rounds after it."""

    rounds: int = option(10, "Rounds of one epoch over the remaining clients.", at_least=1)
    ascent: int = option(5, "Passes of ascent over a target's samples, at most.", at_least=1)
    lr: float = option(1.0, "Rate of the ascent, as a share of that of training.", above=0)
    clip: float = option(5.0, "Bound on the norm of each gradient.", above=0)
    stop: float = option(5.0, "Stop at so many times the squared distance at the start.", above=1)


def unlearn(ctx: Context, options: PGAOptions) -> Result:
    uploads = _uploads(ctx)
    idle = ", ".join(target for target in ctx.targets if target not in uploads)
    nothing = "took part in no round, so there is nothing to take back"
    notes = [f"PGA: {idle} {nothing}"] if idle else []
    if not uploads:
        return Result(ctx.shared, notes=tuple(notes))
    reference, why_not = reference_model(ctx, uploads)
    shared, reports = ascended(ctx, reference, uploads, options)
    notes += [*why_not, *reports]
    return Result(fine_tuned(ctx, shared, options.rounds, epochs=1), notes=tuple(notes))


def _uploads(ctx: Context) -> dict[str, tuple[int, Tensors]]:
    uploads = {target: ctx.record(last_upload, target) for target in ctx.targets}
    return {target: upload for target, upload in uploads.items() if upload is not None}


def reference_model(ctx: Context, uploads: Uploads) -> tuple[Tensors, list[str]]:
    """The last round without the targets, else the tensors as they are and the reason."""
    samples, of_all = last_round(ctx, uploads)
    as_they_are = "PGA starts from the tensors as they are"
    if not samples:
        why = "they are not the mean of a round that the target took part in"
        return ctx.shared, [f"{as_they_are}: {why}"]
    if sum(samples.values()) == of_all:
        return ctx.shared, [f"{as_they_are}: nobody else took part in the last round"]
    parts = [(count, uploads[target][1]) for target, count in samples.items()]
    return without_parts(ctx.shared, parts, of_all), []


def last_round(ctx: Context, uploads: Uploads) -> tuple[dict[str, int], int]:
    """The targets' samples in the mean that the shared tensors are, and those of everybody in it.

    No targets, if the tensors are not such a mean: another request has changed them since.
    """
    mean = ctx.history(mean_digest, ctx.rounds)
    if ctx.history(digest_of, SHARED_FILE) != mean:
        return {}, 0
    there = ctx.history(participants_of, ctx.rounds)
    took_part = [target for target, (at, _) in uploads.items() if at == ctx.rounds]
    return {target: there[target] for target in took_part}, sum(there.values())


def without_parts(shared: Tensors, parts: list[tuple[int, Tensors]], of_all: int) -> Tensors:
    """The mean of a round without these uploads: (theta - sum w_u theta_u) / (1 - sum w_u)."""
    together = StreamingMean(dict(parts[0][1]))
    for samples, upload in parts:
        together.add(upload, samples)
    weight = sum(samples for samples, _ in parts) / of_all
    residual = round_residual(weight, together.result(), shared)
    floating = {name: t for name, t in shared.items() if t.is_floating_point()}
    return {**shared, **{n: (t - residual[n]).to(t.dtype) for n, t in floating.items()}}


def square_radius(ctx: Context, reference: Tensors) -> float:
    """A third of the mean squared distance to random models."""
    distances = []
    for number in range(RANDOM_MODELS):
        seed = derive_seed(ctx.seed, "unlearn", ctx.request, "random model", number)
        random = read_tensors(ctx.random_model(seed), ctx.trained)
        distances.append(square_distance(reference, random, ctx.trained))
    return SHARE_OF_DISTANCE * sum(distances) / RANDOM_MODELS


def ascended(
    ctx: Context, reference: Tensors, uploads: Uploads, options: PGAOptions
) -> tuple[Tensors, list[str]]:
    """The mean of what the targets end with, and a line on how each of them got there."""
    names, square = ctx.trained, square_radius(ctx, reference)

    def step(_number: int, _state: Tensors) -> Tensors:
        report, total = [], StreamingMean(reference)
        for position, (target, (_, own)) in enumerate(uploads.items()):
            how = ProjectedAscent(
                options.ascent,
                lr=options.lr * ctx.settings.lr,
                clip=options.clip,
                square_radius=square,
                limit=options.stop * square_distance(reference, own, names),
            )
            extra = {name: own[name] for name in names}
            same = position > 0
            asked = ctx.ask("projected-ascent", [target], reference, how, extra, same_round=same)
            for reply in asked:
                total.add(reply.shared, reply.samples)
                report.append([reply.metrics[name] for name in _REPORTED])
        return {**total.result(), REPORT: torch.tensor(report, dtype=torch.float64, device="cpu")}

    state = ctx.steps("ascent", 1, dict(reference), step)
    rows = zip(uploads, state.pop(REPORT).tolist(), strict=True)
    return state, [_line(target, *row) for target, row in rows]


_REPORTED = ("steps", "steps_bound", "stopped")


def _line(target: str, steps: float, bound: float, stopped: float) -> str:
    why = "far enough from its last model" if stopped else "when its passes were over"
    ball = f"bound {bound:.0f} of them" if bound else "never bound"
    return f"PGA: {target} ascended {steps:.0f} steps and stopped {why}; the ball {ball}"


def check(ctx: Context, _options: PGAOptions) -> None:
    """Refuse where the target took part, and yet its last upload is gone."""
    for target in ctx.targets:
        took_part = ctx.history(first_round_of, target) is not None
        if took_part and ctx.record(last_upload, target) is None:
            raise PfedulError(
                f"The last upload of {target} is not kept any more: an earlier request deleted "
                "it; train another round first, or choose another method ('pfedul methods')."
            )


# At a target


@dataclass(frozen=True)
class ProjectedAscent(SharedTraining):
    """`square_radius` of the ball; `limit` of the squared distance to the last upload."""

    objective: str = "ascend"
    statistics: bool = False
    square_radius: float | None = None
    limit: float | None = None


def ascend_in_ball(job: Job, how: Mapping[str, Any], extra: Tensors) -> ClientResult:
    """Ascent with a projection after each step; sends back shared tensors and how it went."""
    options: ProjectedAscent = options_from(ProjectedAscent, how)
    with shared_model(job, options.statistics) as parameters:
        centre = {name: p.detach().clone() for name, p in parameters.items()}
        walk = _Walk(parameters, centre, extra, options)
        loss = run(job, options, list(parameters.values()), walk.after_step)
    return ClientResult(read_tensors(job.model, job.split.shared), {"loss": loss, **walk.metrics()})


@dataclass
class _Walk:
    """What is looked at after each step."""

    parameters: Mapping[str, nn.Parameter]
    centre: Tensors
    last_upload: Tensors
    options: ProjectedAscent
    steps: int = 0
    steps_bound: int = 0
    stopped: bool = False

    @torch.no_grad()
    def after_step(self) -> bool:
        """Back onto the ball if need be; True once it is far enough from the last upload."""
        self.steps += 1
        radius, limit = self.options.square_radius, self.options.limit
        square = square_distance(self.parameters, self.centre, self.parameters)
        if radius is not None and square > radius:
            self.steps_bound += 1
            self._shrink((radius / square) ** 0.5)
        away = square_distance(self.parameters, self.last_upload, self.parameters)
        self.stopped = limit is not None and away > limit
        return self.stopped

    def _shrink(self, factor: float) -> None:
        for name, parameter in self.parameters.items():
            middle = self.centre[name]
            parameter.copy_(middle + (parameter - middle) * factor)

    def metrics(self) -> dict[str, float]:
        return {name: float(getattr(self, name)) for name in _REPORTED}


PGA = Method(
    name="pga",
    summary="gradient ascent at the target in a ball round the last round without it, then rounds",
    unlearn=unlearn,
    about=About(
        paper="Halimi et al., 2022",
        who="the targets, then all remaining clients",
        rounds="1 + 10 of one epoch (rounds)",
        memory="the shared tensors once for each client",
        avoids="the notebook stops at a distance that suits one model only; ours is relative",
    ),
    options=PGAOptions,
    needs=Needs(records=("uploads",), target=True),
    client={**TRAIN_SHARED, "projected-ascent": ascend_in_ball},
    check=check,
)
