"""How the replies of a round become the new shared tensors."""

from __future__ import annotations

from pfedul.aggregation.mean import MEAN
from pfedul.aggregation.trimmed import MEDIAN, TRIMMED_MEAN
from pfedul.base.registry import Registry

AGGREGATIONS = Registry("aggregation", MEAN, TRIMMED_MEAN, MEDIAN)
