"""How clusters are formed before the first round: KNOT (Su and Li, INFOCOM 2023).

All clients train one round from the initial tensors, and then the same round again: the first
pass gives the mean of their updates, the second how far each update points away from it, so
the updates need not all be kept. The result is thrown away; clusters start from the initial
tensors. In a simulator the time of training is samples times epochs.

A client is described by the time that its training takes, T_k, and by how far its first
update points away from the mean of all, S_k = (1 - cos)/2. Clusters have anchors that
are evenly spaced over both, and clients go where the sum of their distances to the
anchors of their clusters is smallest, within limits on the size of a cluster. The paper
minimises that sum; its published code maximises it, and so sends clients to the
far cluster.

Times are scaled to the range 0 to 1, as S_k is: in seconds or samples they would decide
everything. The paper's cost, a power of K*C that grows with the rank of the distance,
is replaced by the distance itself, which the same linear programme minimises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pfedul.base.tensors import Tensors
from pfedul.base.vectors import cosine, flat
from pfedul.clusters.layout import Clusters
from pfedul.protocol import Reply, RoundResult

Array = NDArray[np.float64]

OPENING = 0
"""The number of the opening round; no other round has it, so its random draws are its own."""

PlayRound = Callable[[int, Callable[[Reply], None]], RoundResult]
"""Plays a round with all clients from the initial tensors; its result is thrown away."""


def form_clusters(
    play: PlayRound,
    *,
    initial: Tensors,
    parameters: Sequence[str],
    samples: Mapping[str, int],
    epochs: int,
    count: int,
) -> Clusters:
    """The clusters of a run that has not been trained; `samples`: training samples of clients."""
    cosines = _cosines(play, initial, parameters)
    traits = {
        client: Trait(size * epochs, deviation(cosines.get(client, 0.0)))
        for client, size in samples.items()
    }
    return Clusters(count, assign(traits, count))


def _cosines(play: PlayRound, initial: Tensors, parameters: Sequence[str]) -> dict[str, float]:
    """The cosine of each client's first update with the mean of all."""
    cosines: dict[str, float] = {}

    def update(after: Tensors) -> Tensor:
        return flat({name: after[name] - initial[name] for name in parameters}, parameters)

    mean = update(play(OPENING, lambda _: None).shared)

    def compare(reply: Reply) -> None:
        cosines[reply.client] = cosine(mean, update(reply.shared))

    play(OPENING, compare)
    return cosines


@dataclass(frozen=True)
class Trait:
    """What a client is clustered by: training time in any unit, and S_k between 0 and 1."""

    time: float
    deviation: float


def deviation(cosine: float) -> float:
    """S_k of a client whose first update has this cosine with the mean update.

    >>> [deviation(cosine) for cosine in (1.0, 0.0, -1.0)]
    [0.0, 0.5, 1.0]
    """
    return (1 - min(1.0, max(-1.0, cosine))) / 2


def size_limits(clients: int, clusters: int) -> tuple[int, int]:
    """Smallest and largest cluster: K/C and K/2 as in the published code, in whole clients.

    >>> size_limits(15, 5), size_limits(7, 2), size_limits(4, 1)
    ((3, 7), (3, 4), (4, 4))
    """
    return clients // clusters, max(math.ceil(clients / clusters), clients // 2)


def distances(traits: list[Trait], clusters: int) -> Array:
    """The distance of each client (rows) to the anchor of each cluster (columns)."""
    times = np.array([trait.time for trait in traits])
    span = times.max() - times.min()
    scaled = (times - times.min()) / span if span else np.zeros_like(times)
    deviations = np.array([trait.deviation for trait in traits])
    number = np.arange(1, clusters + 1)
    time_anchors = (number - 1) / max(1, clusters - 1) if span else np.zeros(clusters)
    across = time_anchors[None, :] - scaled[:, None], (number / clusters) - deviations[:, None]
    found: Array = np.hypot(*across)
    return found


def cheapest(costs: Array, limits: tuple[int, int]) -> list[int]:
    """The column of each row with the smallest sum of costs, within the limits on columns.

    The constraint matrix is totally unimodular, so the vertex that the simplex method
    returns is an integer solution.
    """
    # Imported here: it takes a while, and only runs with clusters need it.
    from scipy.optimize import linprog

    rows, columns = costs.shape
    once = np.kron(np.eye(rows), np.ones(columns))
    sizes = np.kron(np.ones(rows), np.eye(columns))
    bounds = np.repeat([limits[1], -limits[0]], columns)
    solved = linprog(
        costs.ravel(),
        A_ub=np.vstack([sizes, -sizes]),
        b_ub=bounds,
        A_eq=once,
        b_eq=np.ones(rows),
        bounds=(0, 1),
        method="highs-ds",
    )
    assert solved.success, solved.message
    return [int(column) for column in solved.x.reshape(costs.shape).argmax(axis=1)]


def assign(traits: Mapping[str, Trait], clusters: int) -> dict[str, int]:
    """The cluster of each client, from 1."""
    names = sorted(traits)
    costs = distances([traits[name] for name in names], clusters)
    chosen = cheapest(costs, size_limits(len(names), clusters))
    return {name: column + 1 for name, column in zip(names, chosen, strict=True)}
