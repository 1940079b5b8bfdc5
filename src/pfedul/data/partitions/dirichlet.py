"""Label skew from a Dirichlet distribution: the smaller alpha, the more clients differ.

T.-M. H. Hsu, H. Qi, M. Brown (2019), "Measuring the Effects of Non-Identical
Data Distribution for Federated Visual Classification", in the per-class form of
M. Yurochkin et al. (2019), "Bayesian Nonparametric Federated Learning of Neural
Networks": the shares of each class among clients are one draw.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pfedul.base.options import option
from pfedul.data.partitions.base import PartitionKind, Shares, by_shares

# Below this one client gets a whole class anyway, and logarithms would overflow.
_SMALLEST_ALPHA = 1e-9


@dataclass(frozen=True)
class DirichletOptions:
    """How even the shares of a class are."""

    alpha: float = option(
        0.5, "evenness of a class's shares: near 0 one client has all, large is even", above=0
    )


def draw_shares(classes: int, clients: int, rng: np.random.Generator, alpha: float) -> Shares:
    """Rows that sum to 1, each a symmetric Dirichlet draw.

    Drawn in logarithms: with a small alpha every gamma draw may underflow, and 0/0 is not a
    share. A Gamma(a) draw is a Gamma(a + 1) draw times a uniform one to the power of 1/a.
    """
    concentration = max(alpha, _SMALLEST_ALPHA)
    gamma = rng.standard_gamma(concentration + 1, (classes, clients))
    uniform = 1 - rng.random((classes, clients))
    logs = np.log(gamma) + np.log(uniform) / concentration
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


DIRICHLET = PartitionKind(
    name="dirichlet",
    summary="each class is shared out by a Dirichlet draw; a small alpha makes clients differ",
    options=DirichletOptions,
    split=by_shares(
        lambda classes, clients, rng, options: draw_shares(classes, clients, rng, options.alpha)
    ),
)
