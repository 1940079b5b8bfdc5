"""A federation as an audit sees it: tensors, and the personal part that a target would attach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pfedul.base.tensors import Tensors
from pfedul.clusters.layout import Clusters
from pfedul.run.run import Run


@dataclass(frozen=True, eq=False)
class State:
    """Shared tensors, the remaining clients' personal ones, and those of the targets.

    `stale` is what a target attaches to the shared tensors: the personal part that it kept.
    `fitted` is what it fits to an oracle on its own samples, with the oracle's shared tensors
    frozen: what a head alone gives away. Models that had the target have none.
    """

    shared: Tensors
    personal: Mapping[str, Tensors]
    stale: Mapping[str, Tensors]
    fitted: Mapping[str, Tensors] = field(default_factory=dict)


def state_of(
    run: Run,
    remaining: Sequence[str],
    stale: Mapping[str, Tensors],
    clusters: Clusters | None = None,
    fitted: Mapping[str, Tensors] | None = None,
) -> State:
    """The tensors of a run as they are now; `clusters` may be those from before a removal.

    See `served` for runs with clusters.
    """
    personal = {client: run.personal(client) for client in remaining}
    return served(clusters or run.clusters, run.shared, personal, stale, fitted)


def served(
    clusters: Clusters,
    shared: Tensors,
    personal: Mapping[str, Tensors],
    stale: Mapping[str, Tensors],
    fitted: Mapping[str, Tensors] | None = None,
) -> State:
    """A state in which everybody sees the shared tensors of its own cluster.

    With several clusters these are put before the personal tensors of each client and
    target; `shared` then is what the first of the targets was served.
    """
    if not clusters.several:
        return State(dict(shared), personal, stale, fitted or {})
    own = [
        {client: {**clusters.of(shared, client), **part} for client, part in parts.items()}
        for parts in (personal, stale, fitted or {})
    ]
    first = next(iter([*stale, *personal]))
    return State(clusters.of(shared, first), *own)
