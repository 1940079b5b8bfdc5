"""Every client gets the same share of every class (the IID case of McMahan et al., 2017)."""

from __future__ import annotations

import numpy as np

from pfedul.data.partitions.deal import Shares
from pfedul.data.partitions.partition import PartitionKind, by_shares
from pfedul.registry import NoOptions


def shares(classes: int, clients: int, _rng: np.random.Generator, _options: NoOptions) -> Shares:
    """Equal shares."""
    return np.full((classes, clients), 1 / clients)


IID = PartitionKind(
    name="iid",
    summary="every client gets the same share of every class",
    options=NoOptions,
    split=by_shares(shares),
)
