"""The trimmed mean and the median of a round, value by value; every client counts alike.

D. Yin, Y. Chen, K. Ramchandran, P. Bartlett, "Byzantine-Robust Distributed Learning: Towards
Optimal Statistical Rates", ICML 2018 (arXiv 1803.01498). A client whose value lies among the `cut`
lowest or highest adds nothing to that value of the aggregate, each of the others adds an equal
share. The median keeps the middle value, or the two of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pfedul.aggregation.base import Aggregation, Share
from pfedul.base.options import option
from pfedul.base.registry import NoOptions
from pfedul.base.tensors import Tensors


@dataclass(frozen=True)
class TrimOptions:
    """How much is cut off."""

    share: float = option(
        0.1,
        "share of the clients cut off at each end of every value: one client at least, where "
        "there are three",
        above=0,
        below=0.5,
    )


class Trimmed:
    """Holds all replies of a round, and then who was kept where."""

    noise: Tensors

    def __init__(self, share: float, like: Tensors) -> None:
        self._share, self._like = share, like
        self._replies: dict[str, Tensors] = {}
        self._kept: dict[str, Tensors] = {}
        self.noise = {}

    def add(self, client: str, tensors: Tensors, _weight: float) -> None:
        self._replies[client] = {name: tensor.clone() for name, tensor in tensors.items()}

    def result(self) -> Tensors:
        self._kept = {client: {} for client in self._replies}
        return {name: self._middle(name) for name in self._like}

    def _middle(self, name: str) -> Tensor:
        values = torch.stack([tensors.pop(name) for tensors in self._replies.values()])
        if not values.is_floating_point():  # a counter; see StreamingMean
            return values.amax(0)
        cut = cut_off(len(values), self._share)
        kept = middle_ranks(values, cut)
        for client, mask in zip(self._replies, kept, strict=True):
            self._kept[client][name] = mask
        total = torch.where(kept, values.double(), 0.0).sum(0)
        return (total / (len(values) - 2 * cut)).to(self._like[name].dtype)

    def share(self, client: str) -> Share:
        count = len(self._replies) - 2 * cut_off(len(self._replies), self._share)
        return {name: mask.double() / count for name, mask in self._kept[client].items()}


def cut_off(clients: int, share: float) -> int:
    """How many are cut off at each end; somebody is always left.

    >>> [cut_off(clients, 0.1) for clients in (2, 3, 10, 11)], cut_off(5, 0.5), cut_off(6, 0.5)
    ([0, 1, 1, 2], 2, 2)
    """
    return min(math.ceil(share * clients), (clients - 1) // 2)


def middle_ranks(values: Tensor, cut: int) -> Tensor:
    """Which values are neither among the `cut` lowest nor the `cut` highest of their column.

    Of equal ones the first client's is the lower, so as many are kept everywhere.
    """
    order = values.argsort(dim=0, stable=True)
    kept = torch.zeros_like(values, dtype=torch.bool)
    return kept.scatter_(0, order[cut : len(values) - cut], True)


_HELD = "every update of the round, and one byte more for each of its values"

TRIMMED_MEAN = Aggregation(
    name="trimmed-mean",
    summary="the mean of each value without its lowest and highest; every client counts alike",
    options=TrimOptions,
    start=lambda options, shared: Trimmed(options.share, shared),
    memory=_HELD,
)

MEDIAN = Aggregation(
    name="median",
    summary="the median of each value; every client counts alike",
    options=NoOptions,
    start=lambda _options, shared: Trimmed(0.5, shared),
    memory=_HELD,
)
