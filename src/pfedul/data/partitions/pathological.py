"""Every client holds a few classes only.

After B. McMahan et al. (2017), "Communication-Efficient Learning of Deep
Networks from Decentralized Data", whose clients get two shards of data sorted
by label. Here a client gets exactly `classes_per_client` classes, the
numbers of holders of two classes differ by one at most, and holders share a class evenly. With
fewer places than classes, some classes have no holder and are not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pfedul.base.options import option
from pfedul.data.partitions.base import PartitionKind, Shares, by_shares
from pfedul.errors import PfedulError


@dataclass(frozen=True)
class PathologicalOptions:
    """How many classes each client holds."""

    classes_per_client: int = option(2, "classes that each client holds", at_least=1)


def shares(
    classes: int, clients: int, rng: np.random.Generator, options: PathologicalOptions
) -> Shares:
    """Even shares among the holders of each class."""
    if options.classes_per_client > classes:
        raise PfedulError(
            f"A client cannot hold {options.classes_per_client} classes of {classes}; "
            "ask for fewer classes_per_client."
        )
    holders = _holders(classes, clients, rng, options.classes_per_client)
    return np.asarray(holders / np.maximum(holders.sum(axis=1, keepdims=True), 1))


def _holders(
    classes: int, clients: int, rng: np.random.Generator, per_client: int
) -> NDArray[np.float64]:
    """1 where a client holds a class: each in turn takes the least held, ties by chance."""
    holders = np.zeros((classes, clients))
    for client in range(clients):
        least_held_first = np.lexsort((rng.random(classes), holders.sum(axis=1)))
        holders[least_held_first[:per_client], client] = 1
    return holders


PATHOLOGICAL = PartitionKind(
    name="pathological",
    summary="every client holds exactly so many classes",
    options=PathologicalOptions,
    split=by_shares(shares),
)
