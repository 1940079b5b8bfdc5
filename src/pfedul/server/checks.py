"""Checks on replies: layout, figures, finite values, length of the update."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pfedul.aggregation.base import Aggregate
from pfedul.aggregation.mean import WeightedMean
from pfedul.aggregation.weights import BY_SAMPLES, Weighing
from pfedul.base.hashes import is_digest
from pfedul.base.tensors import Tensors
from pfedul.protocol import Reply

NOT_FINITE = "not finite"
"""Part of the reason whenever a reply is refused because its training diverged."""


@dataclass(frozen=True)
class Rules:
    """What a reply must look like before it may touch anything, and what it then counts.

    `held`: clients keep their personal tensors and reply with a hash of them. Updates longer than
    `limit` are shortened to it. `start` begins the aggregate of a round.
    """

    shared: Mapping[str, Tensor]
    personal: Mapping[str, Tensor]
    parameters: frozenset[str]
    samples: Mapping[str, int]
    held: bool = False
    max_update_norm: float | None = None
    min_replies: int = 1
    limit: float | None = None
    weighing: Weighing = BY_SAMPLES
    start: Callable[[Tensors], Aggregate] = WeightedMean


def check_reply(
    reply: Reply, rules: Rules, shared: Tensors, asked: str
) -> tuple[str | None, float]:
    """The reason to refuse a reply (or None), and the norm of its update.

    Like all checks here it may raise: a reply is untrusted input. `ask_clients` then refuses it.
    """
    reason = _check_parts(reply, rules, asked, rules.shared, checked_by_norm=rules.parameters)
    norm = math.nan if reason else update_norm(shared, reply.shared, rules.parameters)
    reason = reason or _check_norm(norm, rules)
    return reason or _check_buffers(reply.shared, rules, shared), norm


def check_personal(
    reply: Reply, rules: Rules, asked: str, statistics: Mapping[str, Tensor]
) -> str | None:
    """The reason to refuse a reply that has no update, or None.

    `statistics` are the shared tensors that it must have: re-estimated statistics, or none.
    """
    return (
        _check_parts(reply, rules, asked, statistics)
        or _check_buffers(reply.shared, replace(rules, max_update_norm=None), statistics)
        or (_check_accuracy(reply) if "accuracy" in reply.metrics else None)
    )


def check_figures(reply: Reply, asked: str, samples: int) -> str | None:
    """The reason to refuse the figures of an evaluation, or None."""
    return _check_sender(reply, asked, samples) or _check_accuracy(reply)


def check_work(reply: Reply, asked: str, samples: int, like: Mapping[str, Tensor]) -> str | None:
    """The reason to refuse a reply to a method's client function, or None.

    Its tensors must have the names, shapes and types of `like`.
    """
    odd = [name for name, value in reply.metrics.items() if type(value) not in {int, float}]
    return (
        _check_sender(reply, asked, samples)
        or (f"its figure '{odd[0]}' is not a number" if odd else None)
        or check_layout("shared", reply.shared, like)
    )


def _check_parts(
    reply: Reply,
    rules: Rules,
    asked: str,
    shared: Mapping[str, Tensor],
    checked_by_norm: Collection[str] = (),
) -> str | None:
    """`checked_by_norm`: shared tensors that `_check_norm` checks, with the norm of the update."""
    if reply.client not in rules.samples:
        return "this client is not part of the federation"
    return (
        _check_sender(reply, asked, rules.samples[reply.client])
        or check_layout("shared", reply.shared, shared)
        or check_layout("personal", reply.personal, rules.personal)
        or _check_held(reply, rules)
        or check_finite(reply, checked_by_norm)
        or _check_loss(reply)
    )


def _check_norm(norm: float, rules: Rules) -> str | None:
    if not math.isfinite(norm):
        return f"its shared tensors have values that are {NOT_FINITE}"
    if rules.max_update_norm is not None and norm > rules.max_update_norm:
        return f"update norm {norm:.4g} is above {rules.max_update_norm:.4g}"
    if rules.limit is None and norm > SQUARABLE:
        return f"update norm {norm:.4g} is too large to be squared and added up"
    return None


SQUARABLE = 1e15
"""Squares of updates up to this can be added up in single precision, as the Fisher record does."""


def _check_buffers(got: Tensors, rules: Rules, before: Mapping[str, Tensor]) -> str | None:
    """Refuse negative variances, counters that jump, and statistics that move too far."""
    buffers = {name: tensor for name, tensor in got.items() if name not in rules.parameters}
    for name, tensor in buffers.items():
        if name.endswith("running_var") and tensor.numel() and float(tensor.min()) < 0:
            return f"shared tensor '{name}' has a negative variance"
        if not tensor.is_floating_point() and not _counts_on(before[name], tensor):
            return f"shared tensor '{name}' does not count on from the last round"
    return _check_drift(buffers, rules, before)


def _check_drift(buffers: Tensors, rules: Rules, before: Mapping[str, Tensor]) -> str | None:
    """Refuse statistics that move too far; those of honest clients move further than weights."""
    floating = frozenset(n for n, tensor in buffers.items() if tensor.is_floating_point())
    known = {name: before[name] for name in floating}
    limit = DRIFT * (rules.max_update_norm or math.inf)
    if rules.limit is not None:
        limit = min(limit, JUMP * (rules.limit + math.hypot(*map(_length, known.values()))))
    drift = update_norm(known, buffers, floating)
    return None if drift <= limit else f"its statistics moved by {drift:.4g}, above {limit:.4g}"


DRIFT = 100.0
"""Limit on the change of statistics, as a multiple of the limit on the norm of updates."""

JUMP = 1e4
"""The same where there is only a length to which updates are shortened; the norm of the statistics
themselves is added to it. Those of raw pixels begin at 0 and 1 and are thousands after a round."""


def _counts_on(before: Tensor, after: Tensor) -> bool:
    change = after.to(torch.int64) - before.to(torch.int64)
    return not change.numel() or bool(((change >= 0) & (change < LARGEST_COUNT)).all())


LARGEST_COUNT = 2**40
"""More batches than any client trains on in a round."""


def _check_sender(reply: Reply, asked: str, samples: int) -> str | None:
    if reply.client != asked:
        return f"the reply is in the name of {reply.client}"
    if type(reply.samples) is not int or reply.samples != samples:
        return f"reports {reply.samples} samples where {samples} are registered"
    return None


def check_layout(part: str, got: Tensors, wanted: Mapping[str, Tensor]) -> str | None:
    """The reason to refuse tensors whose names, shapes or types are not as wanted, or None."""
    if got.keys() != wanted.keys():
        odd = sorted(got.keys() ^ wanted.keys())[0]
        return f"{part} tensor '{odd}' is {'unknown' if odd in got else 'missing'}"
    for name, tensor in wanted.items():
        if got[name].shape != tensor.shape:
            return f"{part} tensor '{name}' has shape {tuple(got[name].shape)}"
        if got[name].dtype != tensor.dtype:
            return f"{part} tensor '{name}' has type {got[name].dtype}"
        if got[name].layout != torch.strided or got[name].device.type != "cpu":
            return f"{part} tensor '{name}' is not an ordinary tensor in memory"
    return None


def _check_held(reply: Reply, rules: Rules) -> str | None:
    if not rules.held:
        return None if reply.held is None else "it keeps personal tensors that belong here"
    if not is_digest(reply.held):
        return "it does not say which personal tensors it holds"
    return None


def _check_accuracy(reply: Reply) -> str | None:
    accuracy, loss = float(reply.metrics["accuracy"]), float(reply.metrics["loss"])
    sound = 0 <= accuracy <= 1 and not math.isnan(loss)
    return None if sound else f"reports accuracy {accuracy} and loss {loss}"


def check_finite(reply: Reply, checked_by_norm: Collection[str] = ()) -> str | None:
    """The reason to refuse a reply with values that are not finite, or None."""
    shared = {name: t for name, t in reply.shared.items() if name not in checked_by_norm}
    for part, tensors in (("shared", shared), ("personal", reply.personal)):
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not is_finite(tensor):
                return f"{part} tensor '{name}' has values that are {NOT_FINITE}"
    return None


def _check_loss(reply: Reply) -> str | None:
    if not math.isfinite(reply.metrics.get("loss", math.nan)):
        return f"its loss is {NOT_FINITE}"
    return None


def is_finite(tensor: Tensor) -> bool:
    """Whether a tensor has neither NaN nor infinity."""
    # A sum in double precision cannot overflow from finite single-precision
    # values, and NaN or infinity cannot hide in it: one pass and no mask.
    if tensor.dtype == torch.float64:
        return bool(torch.isfinite(tensor).all())
    return math.isfinite(float(tensor.sum(dtype=torch.float64)))


def update_norm(before: Tensors, after: Tensors, parameters: frozenset[str]) -> float:
    """Euclidean length of a client's update, over parameters only: statistics do not count."""
    return math.hypot(*(_length(before[n] - after[n]) for n in before if n in parameters))


def _length(change: Tensor) -> float:
    # Double precision costs three times as much and is only needed for huge values.
    length = float(torch.linalg.vector_norm(change))
    if math.isfinite(length):
        return length
    return float(torch.linalg.vector_norm(change, dtype=torch.float64))
