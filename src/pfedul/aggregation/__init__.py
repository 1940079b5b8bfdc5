"""How the replies of a round become the new shared tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfedul.base.registry import Registry

if TYPE_CHECKING:
    from pfedul.aggregation.base import Aggregation

AGGREGATIONS: Registry[Aggregation] = Registry(
    "aggregation",
    {
        "mean": "pfedul.aggregation.mean:MEAN",
        "trimmed-mean": "pfedul.aggregation.trimmed:TRIMMED_MEAN",
        "median": "pfedul.aggregation.trimmed:MEDIAN",
    },
)
