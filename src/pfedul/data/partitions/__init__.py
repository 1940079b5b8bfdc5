"""Ways to deal a data set to clients, in the order in which they are listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfedul.base.registry import Registry

if TYPE_CHECKING:
    from pfedul.data.partitions.base import PartitionKind

PARTITIONS: Registry[PartitionKind] = Registry(
    "partition",
    {
        "dirichlet": "pfedul.data.partitions.dirichlet:DIRICHLET",
        "iid": "pfedul.data.partitions.iid:IID",
        "pathological": "pfedul.data.partitions.pathological:PATHOLOGICAL",
        "natural": "pfedul.data.partitions.natural:NATURAL",
        "imbalanced": "pfedul.data.partitions.imbalanced:IMBALANCED",
        "rare-class": "pfedul.data.partitions.rare_class:RARE_CLASS",
    },
    group="pfedul.partitions",
)
