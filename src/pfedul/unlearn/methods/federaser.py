"""FedEraser: replay training without the target, with old step lengths and new directions.

Liu et al., IWQoS 2021. From the model before training, the first round is repeated from
what the remaining clients then sent. Of every `interval`-th round after it, each client
that took part trains the new model for a few epochs, and its update is stretched to the
length that its update of that round had. Statistics of normalisation have no length to
stretch: they are the plain mean of what clients send.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from pfedul.aggregation.mean import StreamingMean
from pfedul.base.options import option
from pfedul.base.tensors import Tensors, norm
from pfedul.errors import PfedulError
from pfedul.records.norms import Lengths, first_upload, read_lengths
from pfedul.store.tables import participants_of
from pfedul.unlearn.base import About, Does, Method, Needs, Result
from pfedul.unlearn.context import Context
from pfedul.unlearn.training import TRAIN_SHARED, SharedTraining

_TINY = 1e-12  # an update of no length has no direction either, and is left as it is


@dataclass(frozen=True)
class FedEraserOptions:
    """Which rounds are replayed, for how long, and what the old step lengths are."""

    interval: int = option(2, "Replay every interval-th round.", at_least=1)
    ratio: float = option(0.5, "Local epochs, as a share of those of training.", above=0)
    norms: str = option(
        "tensor", "Lengths of each tensor, or of the whole update.", choices=("tensor", "whole")
    )
    against: str = option(
        "before",
        "Lengths from the tensors before the round, or after it as in the code.",
        choices=("before", "after"),
    )


def unlearn(ctx: Context, options: FedEraserOptions) -> Result:
    replayed = range(1, ctx.rounds + 1, options.interval)[1:]
    epochs = math.ceil(options.ratio * ctx.settings.local_epochs)
    lengths = _lengths_of_all(ctx)

    def step(number: int, before: Tensors) -> Tensors:
        at = replayed[number - 1]
        there = {client: own for client, own in lengths.items() if at in own.rounds}
        wanted = {client: own.at(at, options.against) for client, own in there.items()}
        return _calibrated_round(ctx, before, wanted, epochs, options.norms)

    return Result(ctx.steps("calibration", len(replayed), _first_round(ctx), step))


def _lengths_of_all(ctx: Context) -> dict[str, Lengths]:
    lengths = {client: ctx.record(read_lengths, client) for client in ctx.remaining}
    return {client: own for client, own in lengths.items() if own is not None}


def _first_round(ctx: Context) -> Tensors:
    """The mean of what those who remain sent in round 1; as before training if none was there."""
    mean, found = StreamingMean(dict(ctx.shared)), False
    for client in ctx.remaining:
        upload = ctx.record(first_upload, client)
        if upload is not None:
            mean.add(upload, ctx.samples(client))
            found = True
    return mean.result() if found else ctx.initial


def _calibrated_round(
    ctx: Context,
    before: Tensors,
    wanted: Mapping[str, Mapping[str, float]],
    epochs: int,
    norms: str,
) -> Tensors:
    """A round of those who took part in the old one; nothing where that was nobody."""
    if not wanted:
        return before
    mean = StreamingMean(before)
    for reply in ctx.ask("train-shared", list(wanted), before, SharedTraining(epochs)):
        stretched = calibrated(before, reply.shared, wanted[reply.client], norms)
        mean.add(ctx.tied({**reply.shared, **stretched}), reply.samples)
    return mean.result()


def calibrated(before: Tensors, after: Tensors, wanted: Mapping[str, float], norms: str) -> Tensors:
    """Parameters after an update in the new direction, of the old length.

    >>> one = {"w": torch.tensor([1.0])}
    >>> calibrated(one, {"w": torch.tensor([0.9])}, {"w": 0.5}, "tensor")["w"].item()
    0.5
    """
    change = {name: after[name].to(torch.float64) - before[name] for name in wanted}
    whole = math.hypot(*wanted.values()) / max(norm(change), _TINY)
    scales = {
        name: length / max(norm({name: change[name]}), _TINY) if norms == "tensor" else whole
        for name, length in wanted.items()
    }
    return {
        name: (before[name] + scales[name] * tensor).to(after[name].dtype)
        for name, tensor in change.items()
    }


def check(ctx: Context, options: FedEraserOptions) -> None:
    """The replay begins with round 1: lengths of later rounds alone are of no use."""
    _check_first_uploads(ctx)
    ctx.require_record("norms")
    if options.against == "after" and any(not own.after for own in _lengths_of_all(ctx).values()):
        raise PfedulError(
            "Lengths from the mean of a round were erased with an earlier request, as the client "
            "that was forgotten was in that mean; use against=before."
        )


def _check_first_uploads(ctx: Context) -> None:
    first = set(ctx.remaining) & ctx.history(participants_of, 1).keys()
    if any(ctx.record(first_upload, client) is None for client in first):
        raise PfedulError(
            "The norms record was erased with an earlier request (--forget-records all, or a "
            "method that starts over or leaves a part of the target in the shared tensors), and "
            "FedEraser replays training from round 1; choose another method ('pfedul methods')."
        )


FEDERASER = Method(
    name="federaser",
    summary="replay training without the target: old step lengths, new directions",
    unlearn=unlearn,
    about=About(
        paper="Liu et al., IWQoS 2021",
        who="all remaining clients",
        rounds=(
            "one for every 2 of training after the first (interval), which is repeated from "
            "what was kept; each of half the epochs (ratio)"
        ),
        memory=(
            "two numbers for each shared tensor, client and round, and one copy of the shared "
            "tensors for each client"
        ),
        avoids="the code's step lengths are measured from the wrong model, 4 to 15 times too short",
    ),
    options=FedEraserOptions,
    needs=Needs(records=("norms",)),
    does=Does(replaces=True),
    client=TRAIN_SHARED,
    check=check,
)
