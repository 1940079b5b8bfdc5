"""One client holds most of a few classes; everything else is dealt with label skew.

It shows what forgetting costs when the client that leaves knew something unique.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pfedul.base.options import option
from pfedul.data.partitions.base import PartitionKind, Shares, by_shares
from pfedul.data.partitions.dirichlet import draw_shares
from pfedul.data.partitions.imbalanced import ImbalancedOptions
from pfedul.data.partitions.imbalanced import shares as imbalanced_shares
from pfedul.errors import PfedulError


@dataclass(frozen=True)
class RareClassOptions:
    """The rare classes, the first client's share of each of them, and the skew of the rest."""

    classes: tuple[int, ...] = option((0, 1), "the rare classes")
    share: float = option(0.85, "the first client's share of each of them", above=0, below=1)
    alpha: float = option(0.5, "evenness of all other shares", above=0)

    def __post_init__(self) -> None:
        if not self.classes or len(set(self.classes)) < len(self.classes):
            raise ValueError("classes must be one or more different classes")


def shares(
    classes: int, clients: int, rng: np.random.Generator, options: RareClassOptions
) -> Shares:
    """Dirichlet draws over all clients, but for the rare classes, of which the first has most."""
    outside = [label for label in options.classes if not 0 <= label < classes]
    if outside:
        raise PfedulError(f"There is no class {outside[0]}; choose from 0 to {classes - 1}.")
    dealt = draw_shares(classes, clients, rng, options.alpha)
    rare, skew = list(options.classes), ImbalancedOptions(options.share, options.alpha)
    dealt[rare] = imbalanced_shares(len(rare), clients, rng, skew)
    return dealt


RARE_CLASS = PartitionKind(
    name="rare-class",
    summary="the first client holds most of a few classes",
    options=RareClassOptions,
    split=by_shares(shares),
)
