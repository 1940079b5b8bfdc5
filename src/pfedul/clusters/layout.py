"""Clusters of clients that never exchange updates: a training layout for KNOT.

A run with clusters has shared tensors for each of them, all in the one file of shared
tensors, as `cluster-2/NAME`. Every client is sent those of its own cluster under their
plain names, never a mean over clusters: personal parts belong to their own cluster's
shared tensors. An ordinary run is one cluster, and its names are plain.

Each client has a file that says which cluster it is in, and that is erased with it. With
partial participation, a checkpoint of a cluster's shared tensors is kept from before each
member's first round, so the cluster can be retrained from there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import torch

from pfedul.base.tensors import Tensors, size_in_bytes
from pfedul.protocol import Engine, LocatePersonal, Reply, Task
from pfedul.split import Layer
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
        """The cluster of a client; the first one before clusters are formed."""
        return self.assigned.get(client, 1)

    def groups(self, clients: Iterable[str]) -> dict[int, list[str]]:
        """Clients by cluster, in the order given."""
        found: dict[int, list[str]] = {}
        for client in clients:
            found.setdefault(self.number(client), []).append(client)
        return dict(sorted(found.items()))

    def with_any(self, chosen: Iterable[str], clients: Iterable[str]) -> dict[int, list[str]]:
        """Clients by cluster, of those clusters that one of the chosen is in."""
        numbers = {self.number(client) for client in chosen}
        return {number: own for number, own in self.groups(clients).items() if number in numbers}

    def view(self, shared: Tensors, cluster: int) -> Tensors:
        """The shared tensors of one cluster, under their plain names."""
        prefix = self._prefix(cluster)
        return {n.removeprefix(prefix): t for n, t in shared.items() if n.startswith(prefix)}

    def of(self, shared: Tensors, client: str) -> Tensors:
        """The shared tensors that a client is sent."""
        return self.view(shared, self.number(client))

    def put(self, shared: Tensors, cluster: int, own: Tensors) -> Tensors:
        """All shared tensors, with those of one cluster replaced."""
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

    def layer(self, cluster: int, plain: Layer) -> Layer:
        """A layer of one cluster."""
        prefix = self._prefix(cluster)
        tensors = tuple(prefix + name for name in plain.tensors)
        return replace(plain, name=prefix + plain.name, tensors=tensors)

    def served_bytes(self, shared: Tensors) -> int:
        """How much a client is sent."""
        return size_in_bytes(shared) // self.count

    def files(self, clients: Iterable[str]) -> dict[str, Tensors]:
        """The tensor files that say which cluster each of these clients is in."""
        return {
            cluster_file(client): {"cluster": torch.tensor(self.assigned[client], device="cpu")}
            for client in clients
            if client in self.assigned
        }

    def _prefix(self, cluster: int) -> str:
        return f"cluster-{cluster}/" if self.several else ""


ONE_CLUSTER = Clusters()
"""An ordinary run."""


class ClusteredEngine:
    """Wraps another engine and runs one cluster after the other.

    Given the shared tensors of all clusters, it sends each client those of its own.
    Tensors of a single cluster, under their plain names, are sent as they are. Replies
    that come before their turn are kept, with copies of their tensors.
    """

    def __init__(self, inside: Engine, clusters: Callable[[], Clusters]) -> None:
        self.in_process = inside.in_process
        self._inside = inside
        self._clusters = clusters

    def run(
        self, task: Task, clients: Sequence[str], shared: Tensors, locate_personal: LocatePersonal
    ) -> Generator[Reply, None, None]:
        clusters = self._clusters()
        if not clusters.view(shared, 1):
            yield from self._inside.run(task, clients, shared, locate_personal)
            return
        early: dict[str, Reply] = {}
        waiting = list(clients)
        for cluster, group in clusters.groups(clients).items():
            view = clusters.view(shared, cluster)
            with closing(self._inside.run(task, group, view, locate_personal)) as replies:
                for client, reply in zip(group, replies, strict=True):
                    early[client] = reply if client == waiting[0] else _copied(reply)
                    while waiting and waiting[0] in early:
                        yield early.pop(waiting.pop(0))

    def close(self) -> None:
        self._inside.close()


def _copied(reply: Reply) -> Reply:
    shared, personal = (
        {name: tensor.clone() for name, tensor in part.items()}
        for part in (reply.shared, reply.personal)
    )
    return replace(reply, shared=shared, personal=personal)


def read_clusters(store: Store, count: int, clients: Iterable[str]) -> Clusters:
    """The clusters of a run, as far as they are formed."""
    if count == 1:
        return ONE_CLUSTER
    known = [client for client in clients if store.has(cluster_file(client))]
    found = {client: int(store.read(cluster_file(client))["cluster"]) for client in known}
    return Clusters(count, found)


def last_checkpoint(store: Store, cluster: int, number: int) -> int:
    """The last round, up to this one, with a checkpoint from before it; 1: the initial tensors."""
    return max((n for n in _checkpoints(store, cluster) if n <= number), default=1)


def read_checkpoint(store: Store, cluster: int, number: int) -> Tensors:
    """A cluster's shared tensors as they were before a round."""
    return store.read(checkpoint_file(cluster, number))


def obsolete_cluster_files(store: Store, clusters: Clusters, targets: Sequence[str]) -> list[str]:
    """Files to delete with these clients: their own, and all checkpoints that they influenced."""
    obsolete = [cluster_file(target) for target in targets]
    for target in targets:
        first, cluster = first_round_of(store.ledger, target), clusters.number(target)
        known = _checkpoints(store, cluster) if first is not None and clusters.several else []
        obsolete += [checkpoint_file(cluster, n) for n in known if n > (first or 0)]
    return obsolete


def _checkpoints(store: Store, cluster: int) -> list[int]:
    names = file_names(store.ledger, f"{CHECKPOINTS}/{cluster}/")
    return [int(name.rpartition("-")[2].partition(".")[0]) for name in names]
