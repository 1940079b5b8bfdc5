"""A federation as an audit sees it: tensors, and the personal part that a target would attach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pfedul.base.tensors import Tensors, read_tensors
from pfedul.client import perform, scratch_of
from pfedul.clusters.layout import Clusters
from pfedul.personalization import Recalibration
from pfedul.protocol import Task, Workbench

if TYPE_CHECKING:
    from pfedul.run.run import Run as Federation

MOST_EPOCHS = 50
"""For the head that a target fits on an oracle; more epochs than that change it no more."""


@dataclass(frozen=True, eq=False)
class State:
    """Shared tensors, the remaining clients' personal ones, and those of the targets.

    `stale` is what a target attaches to the shared tensors: the personal part that it
    kept. An oracle has never had the target, so there it is one that the target fits
    on its own samples, with the oracle's shared tensors frozen: what its head alone
    would give away.
    """

    shared: Tensors
    personal: Mapping[str, Tensors]
    stale: Mapping[str, Tensors]


def state_of(
    federation: Federation,
    remaining: Sequence[str],
    stale: Mapping[str, Tensors],
    clusters: Clusters | None = None,
) -> State:
    """The tensors of a federation as they are now; `clusters` may be those from before a removal.

    See `served` for runs with clusters.
    """
    personal = {client: federation.personal(client) for client in remaining}
    return served(clusters or federation.clusters, federation.shared, personal, stale)


def served(
    clusters: Clusters,
    shared: Tensors,
    personal: Mapping[str, Tensors],
    stale: Mapping[str, Tensors],
) -> State:
    """A state in which everybody sees the shared tensors of its own cluster.

    With several clusters these are put before the personal tensors of each client and
    target; `shared` then is what the first of the targets was served.
    """
    if not clusters.several:
        return State(dict(shared), personal, stale)
    own = [
        {client: {**clusters.of(shared, client), **part} for client, part in parts.items()}
        for parts in (personal, stale)
    ]
    first = next(iter([*stale, *personal]))
    return State(clusters.of(shared, first), *own)


def fitted_heads(
    bench: Workbench,
    shared: Tensors,
    targets: Sequence[str],
    epochs: int,
    seed: int,
    clusters: Clusters | None = None,
) -> dict[str, Tensors]:
    """The personal part that each target would fit to shared tensors that never knew it."""
    how = Recalibration(epochs=min(epochs, MOST_EPOCHS), affine=True)
    task = Task("recalibrate", 0, recalibration=how, seed=seed)
    scratch = scratch_of(bench)
    initial = read_tensors(bench.build_model(), bench.split.personal)
    views = clusters or Clusters()
    return {
        target: perform(*(bench, scratch, task, target), views.of(shared, target), initial).personal
        for target in targets
    }
