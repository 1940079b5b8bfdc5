"""What a partition is: a way to say which samples of a data set each client holds.

Most partitions are given by shares: the fraction of each class that goes to
each client. The same shares are applied to the training part and, separately,
to the test part, so a client's two parts follow the same distribution and the
official separation of the two is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pfedul.base.randomness import numpy_generator
from pfedul.data.client_ids import numbered_ids
from pfedul.data.datasets.base import Dataset
from pfedul.data.partitions.deal import Indices, Shares, deal
from pfedul.errors import PfedulError

CLIENTS_UNLESS_SAID = 10


@dataclass(frozen=True)
class ClientIndices:
    """Which samples of the training part and of the test part a client holds."""

    train: Indices
    test: Indices


Holdings = dict[str, ClientIndices]
ShareRule = Callable[[int, int, np.random.Generator, Any], Shares]
Split = Callable[[Dataset, int | None, int, Any], Holdings]


@dataclass(frozen=True)
class PartitionKind:
    """A partition that users can choose by name.

    `split` takes the data set, the number of clients (or None), the seed and the options.
    """

    name: str
    summary: str
    options: type[Any]
    split: Split


def by_shares(rule: ShareRule) -> Split:
    """The split that deals both parts by the shares that `rule` draws."""

    def split(dataset: Dataset, clients: int | None, seed: int, options: Any) -> Holdings:
        count = CLIENTS_UNLESS_SAID if clients is None else clients
        _check_enough_samples(dataset, count)
        shares = rule(dataset.classes, count, numpy_generator(seed, "partition", "shares"), options)
        train, test = (
            deal(part.y.numpy(), shares, numpy_generator(seed, "partition", name))
            for name, part in (("train", dataset.train), ("test", dataset.test))
        )
        return dict(zip(numbered_ids(count), map(ClientIndices, train, test), strict=True))

    return split


def _check_enough_samples(dataset: Dataset, clients: int) -> None:
    if clients > len(dataset.train):
        raise PfedulError(
            f"There are {clients} clients but only {len(dataset.train)} training samples; "
            "ask for fewer clients."
        )
