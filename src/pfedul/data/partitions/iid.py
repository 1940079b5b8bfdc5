"""Every client gets the same share of every class (the IID case of McMahan et al., 2017)."""

from __future__ import annotations

import numpy as np

from pfedul.base.registry import NoOptions
from pfedul.data.partitions.base import PartitionKind, Shares, by_shares


def shares(classes: int, clients: int, _rng: np.random.Generator, _options: NoOptions) -> Shares:
    """Equal shares."""
    return np.full((classes, clients), 1 / clients)


IID = PartitionKind(
    name="iid",
    summary="every client gets the same share of every class",
    options=NoOptions,
    split=by_shares(shares),
)
