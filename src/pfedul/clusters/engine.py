"""An engine that sends each client the shared tensors of its own cluster."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace

from pfedul.base.tensors import Tensors
from pfedul.clusters.layout import Clusters
from pfedul.protocol import Engine, LocatePersonal, Reply, Task


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
