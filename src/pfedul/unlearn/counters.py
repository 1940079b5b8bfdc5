"""Counters of batches (`num_batches_tracked`) without the targets.

In a round the shared counter grows by the batches of the largest client, so a target that was
the largest could be counted by it. Where it was, the counter shrinks to what the others make of it.
"""

from __future__ import annotations

from collections.abc import Collection

from pfedul.base.tensors import Tensors
from pfedul.personalization.local import count_batches
from pfedul.store.tables import participation
from pfedul.unlearn.context import Context


def counters_without_targets(ctx: Context) -> Tensors:
    """The integer tensors of the shared part; only those that count batches can change."""
    shared = dict(ctx.shared)
    for cluster, group in ctx.clusters.groups([*ctx.remaining, *ctx.targets]).items():
        counted = _batches(ctx, group)
        left = _batches(ctx, set(group) - set(ctx.targets))
        if left < counted:
            view = ctx.clusters.view(shared, cluster)
            fewer = {
                name: tensor * left // counted
                for name, tensor in view.items()
                if name.endswith("num_batches_tracked")
            }
            shared = ctx.clusters.put(shared, cluster, fewer)
    return {name: tensor for name, tensor in shared.items() if not tensor.is_floating_point()}


def _batches(ctx: Context, clients: Collection[str]) -> int:
    """The batches of the largest of these clients, summed over rounds; an epoch each."""
    size = ctx.settings.batch_size
    rounds = ctx.history(participation, 0)
    return sum(
        max((count_batches(n, size) for client, n in there.items() if client in clients), default=0)
        for there in rounds
    )
