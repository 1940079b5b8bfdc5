"""KNOT's assignment of clients to clusters (Su and Li, INFOCOM 2023): pure functions.

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
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Trait:
    """What clusters are made by: training time in any unit, and S_k between 0 and 1."""

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
    """Of each client (rows) to the anchor of each cluster (columns)."""
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
    """The column of each row, so that the sum of costs is smallest and columns keep the limits.

    The matrix of the conditions is totally unimodular: a vertex of the linear programme,
    which the simplex method ends in, is whole.
    """
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
