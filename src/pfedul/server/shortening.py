"""Updates that are too long are shortened: their direction stays, their length is bounded.

The allowed length is a multiple of the running median of the lengths that clients sent, before any
was shortened, in the last rounds. Fewer than half of the replies cannot move a median beyond the
lengths of the others. Before there are enough of them, and where the median is 0, the norm of the
shared parameters takes its place.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from statistics import median_low

from torch import Tensor

from pfedul.base.tensors import Tensors
from pfedul.protocol import Reply
from pfedul.server.checks import update_norm

ENOUGH = 5
"""Replies from which a median is taken."""


def allowed_length(multiple: float, lengths: Sequence[float], size: float) -> float:
    """The length to which updates are shortened, given lengths of the last rounds.

    >>> allowed_length(10, [1.0, 1.2, 1e30, 1.1, 0.9], size=8.0)
    11.0
    >>> allowed_length(10, [], size=8.0), allowed_length(10, [0.0] * 9, size=8.0)
    (80.0, 80.0)
    """
    usual = median_low(lengths) if len(lengths) >= ENOUGH else 0.0
    return multiple * (usual or size or 1.0)  # a model of zeros has no size


def shortened(reply: Reply, before: Tensors, names: Collection[str], factor: float) -> Reply:
    """The reply with its update of these tensors times `factor`."""
    shared = {
        name: _between(before[name], tensor, factor) if name in names else tensor
        for name, tensor in reply.shared.items()
    }
    return replace(reply, shared=shared)


def bounded(reply: Reply, before: Tensors, names: Collection[str], limit: float | None) -> Reply:
    """The reply, its update of these tensors no longer than `limit`."""
    length = update_norm(before, reply.shared, frozenset(names))
    if limit is None or length <= limit:
        return reply
    return shortened(reply, before, names, limit / length)


def _between(before: Tensor, after: Tensor, factor: float) -> Tensor:
    start = before.double()
    return (start + (after.double() - start) * factor).to(before.dtype)
