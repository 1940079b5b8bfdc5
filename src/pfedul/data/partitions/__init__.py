"""Ways to deal a data set to clients, in the order in which they are listed."""

from __future__ import annotations

from pfedul.base.registry import Registry
from pfedul.data.partitions.base import PartitionKind
from pfedul.data.partitions.dirichlet import DIRICHLET
from pfedul.data.partitions.iid import IID
from pfedul.data.partitions.imbalanced import IMBALANCED
from pfedul.data.partitions.natural import NATURAL
from pfedul.data.partitions.pathological import PATHOLOGICAL
from pfedul.data.partitions.rare_class import RARE_CLASS

PARTITIONS: Registry[PartitionKind] = Registry(
    "partition",
    *(DIRICHLET, IID, PATHOLOGICAL, NATURAL, IMBALANCED, RARE_CLASS),
    group="pfedul.partitions",
)
