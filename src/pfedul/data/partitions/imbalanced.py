"""One client holds much of all data; the rest is dealt to the others with label skew.

It shows what forgetting costs when the client that leaves is a large one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pfedul.base.options import option
from pfedul.data.partitions.base import PartitionKind, Shares, by_shares
from pfedul.data.partitions.dirichlet import draw_shares
from pfedul.errors import PfedulError


@dataclass(frozen=True)
class ImbalancedOptions:
    """The first client's share of every class, and the skew among the others."""

    share: float = option(0.2, "the first client's share of every class", above=0, below=1)
    alpha: float = option(0.5, "evenness of the shares among the others", above=0)


def shares(
    classes: int, clients: int, rng: np.random.Generator, options: ImbalancedOptions
) -> Shares:
    """`share` of every class to the first client, a Dirichlet draw of the rest to the others."""
    if clients < 2:
        raise PfedulError("This partition sets one client against others; ask for 2 or more.")
    others = draw_shares(classes, clients - 1, rng, options.alpha) * (1 - options.share)
    return np.hstack([np.full((classes, 1), options.share), others])


IMBALANCED = PartitionKind(
    name="imbalanced",
    summary="the first client holds a large share of everything",
    options=ImbalancedOptions,
    split=by_shares(shares),
)
