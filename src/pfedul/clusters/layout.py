"""Clusters of clients that never exchange updates: a training layout for KNOT.

A run with clusters has shared tensors for each of them, all in the one file of shared
tensors, as `cluster-2/NAME`. Every client is served those of its own cluster under their
plain names, never a mean over clusters: personal parts belong to their own cluster's
shared tensors. An ordinary run is one cluster, and its names are plain.

Which cluster a client is in is a file among its own, which goes with it. Where clients
take part in some rounds only, the shared tensors of a cluster are kept as they were
before each member's first round, so that training can resume there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from pfedul.base.tensors import Tensors, size_in_bytes
from pfedul.store.paths import CHECKPOINTS, checkpoint_file, cluster_file
from pfedul.store.store import Store
from pfedul.store.tables import file_names, first_round_of


@dataclass(frozen=True)
class Clusters:
    """How many clusters there are, and which one each client is in, from 1.

    >>> two = Clusters(2, {"b": 2})
    >>> two.groups(["a", "b", "c"])
    {1: ['a', 'c'], 2: ['b']}
    >>> two.of({"cluster-1/w": 3, "cluster-2/w": 4}, "b")
    {'w': 4}
    """

    count: int = 1
    assigned: Mapping[str, int] = field(default_factory=dict)

    @property
    def several(self) -> bool:
        return self.count > 1

    def number(self, client: str) -> int:
        """Before clusters are formed all of them are alike, and everybody is in the first."""
        return self.assigned.get(client, 1)

    def groups(self, clients: Iterable[str]) -> dict[int, list[str]]:
        """Clients by cluster, in the order given."""
        found: dict[int, list[str]] = {}
        for client in clients:
            found.setdefault(self.number(client), []).append(client)
        return dict(sorted(found.items()))

    def view(self, shared: Tensors, cluster: int) -> Tensors:
        """The shared tensors of one cluster, under their plain names."""
        prefix = self._prefix(cluster)
        return {n.removeprefix(prefix): t for n, t in shared.items() if n.startswith(prefix)}

    def of(self, shared: Tensors, client: str) -> Tensors:
        """The shared tensors that a client is served."""
        return self.view(shared, self.number(client))

    def put(self, shared: Tensors, cluster: int, own: Tensors) -> Tensors:
        """All shared tensors with others in one cluster."""
        prefix = self._prefix(cluster)
        return {**shared, **{prefix + name: tensor for name, tensor in own.items()}}

    def everywhere(self, own: Tensors) -> Tensors:
        """The same tensors in all clusters."""
        return {
            self._prefix(cluster) + name: tensor.clone()
            for cluster in range(1, self.count + 1)
            for name, tensor in own.items()
        }

    def names(self, plain: Iterable[str]) -> list[str]:
        """The names of tensors in all clusters."""
        chosen = list(plain)
        return [
            self._prefix(cluster) + name for cluster in range(1, self.count + 1) for name in chosen
        ]

    def served_bytes(self, shared: Tensors) -> int:
        """How much a client is sent."""
        return size_in_bytes(shared) // self.count

    def files(self, clients: Iterable[str]) -> dict[str, Tensors]:
        """The tensor files that say which cluster each of these clients is in."""
        return {
            cluster_file(client): {"cluster": torch.tensor(self.assigned[client])}
            for client in clients
            if client in self.assigned
        }

    def _prefix(self, cluster: int) -> str:
        return f"cluster-{cluster}/" if self.several else ""


def read_clusters(store: Store, count: int, clients: Iterable[str]) -> Clusters:
    """The clusters of a run as far as they are formed."""
    if count == 1:
        return Clusters()
    known = [client for client in clients if store.has(cluster_file(client))]
    found = {client: int(store.read(cluster_file(client))["cluster"]) for client in known}
    return Clusters(count, found)


def last_checkpoint(store: Store, cluster: int, number: int) -> int:
    """The last round up to this one before which a cluster's tensors are known; 1: the initial."""
    return max((n for n in _checkpoints(store, cluster) if n <= number), default=1)


def read_checkpoint(store: Store, cluster: int, number: int) -> Tensors:
    """A cluster's shared tensors as they were before a round."""
    return store.read(checkpoint_file(cluster, number))


def doomed_cluster_files(store: Store, clusters: Clusters, targets: Sequence[str]) -> list[str]:
    """What must go with these clients: their own files, and all checkpoints that they are in."""
    doomed = [cluster_file(target) for target in targets]
    for target in targets:
        first, cluster = first_round_of(store.ledger, target), clusters.number(target)
        known = _checkpoints(store, cluster) if first is not None and clusters.several else []
        doomed += [checkpoint_file(cluster, n) for n in known if n > (first or 0)]
    return doomed


def _checkpoints(store: Store, cluster: int) -> list[int]:
    names = file_names(store.ledger, f"{CHECKPOINTS}/{cluster}/")
    return [int(name.rpartition("-")[2].partition(".")[0]) for name in names]
