"""What a record is: a recorder that sees every round, the files it keeps, and what they cost.

A recorder gets each reply as it arrives (`add`). When the round is complete and its mean is known,
recorders with `looks_back` see every reply again, read back from disk one at a time (`look_back`):
memory does not grow with the number of clients. What they stage belongs to the round's commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from pfedul.aggregation.base import Share
from pfedul.aggregation.weights import BY_SAMPLES, Weighing
from pfedul.base.registry import NoOptions
from pfedul.base.tensors import Tensors, norm
from pfedul.clusters.layout import ONE_CLUSTER, Clusters
from pfedul.records.options import RecordOptions
from pfedul.split import Split
from pfedul.store.paths import record_file
from pfedul.store.store import Store


@dataclass(frozen=True)
class Update:
    """A client's reply of round `number`: shared tensors before and after its work."""

    number: int
    client: str
    before: Tensors
    after: Tensors

    def change(self, names: Sequence[str]) -> Tensors:
        """What the client added to the tensors that it was given, in double precision."""
        return changes(self.before, self.after, names)


@dataclass(frozen=True)
class WholeRound:
    """A completed round; `shares` and `noise` are those of its aggregate.

    Names of tensors and `parameters` are those of all clusters.
    """

    number: int
    before: Tensors
    after: Tensors
    shares: Mapping[str, Share]
    parameters: tuple[str, ...]
    noise: Tensors

    def weight(self, client: str) -> float:
        """The client's share in a weighted mean."""
        share = self.shares[client]
        assert not isinstance(share, dict), "`Settings` refuses such a record for others"
        return share

    @cached_property
    def change(self) -> Tensors:
        """What the round added to the shared parameters, in double precision."""
        return changes(self.before, self.after, self.parameters)

    @cached_property
    def square(self) -> float:
        """The squared norm of `change`."""
        return norm(self.change) ** 2


def changes(before: Tensors, after: Tensors, names: Sequence[str]) -> Tensors:
    """After minus before, in double precision."""
    return {name: change(before[name], after[name]) for name in names}


def change(before: Tensor, after: Tensor) -> Tensor:
    """After minus before, in double precision and memory of its own."""
    return after.to(torch.float64, copy=True).sub_(before)


@dataclass(frozen=True)
class Keeping:
    """What a recorder is given: where to keep, the options, what is shared, and with whom."""

    store: Store
    options: RecordOptions
    split: Split
    clusters: Clusters = ONE_CLUSTER


class Recorder:
    """Sees one round; with `looks_back` it sees the replies again when the mean is known."""

    looks_back = False

    def __init__(self, keeping: Keeping) -> None:
        self._store, self._options = keeping.store, keeping.options
        self._split, self._names = keeping.split, keeping.split.parameters

    def add(self, update: Update) -> None:
        """Take in a reply."""

    def look_back(self, update: Update, whole: WholeRound) -> None:
        """Take in the same reply again, when the round is complete."""

    def finish(self, whole: WholeRound) -> None:
        """Called after all replies."""


@dataclass(frozen=True)
class Erasure:
    """Targets to forget; with `everything` the files of all clients are deleted.

    `excluded`: the correction `exclude` took out all that the targets had added to the shared
    parameters; `added` is what repair rounds then added to them, of each remaining client.
    `clean`: nothing that the targets sent is left in the shared tensors, by any method.
    `weighing` is that of the rounds.
    """

    store: Store
    split: Split
    clients: tuple[str, ...]
    targets: tuple[str, ...]
    everything: bool = False
    excluded: bool = False
    clean: bool = False
    added: Callable[[str], Tensors] = lambda _client: {}
    weighing: Weighing = BY_SAMPLES
    clusters: Clusters = ONE_CLUSTER

    @property
    def leaving(self) -> tuple[str, ...]:
        """The clients whose own files are deleted."""
        return self.clients if self.everything else self.targets


@dataclass(frozen=True)
class Extent:
    """What the size of a record depends on; `tensors` and `parameters` are the shared ones.

    They are those of all `clusters` together.
    """

    clients: int
    parameters: int
    tensors: int
    rounds: int
    clusters: int = 1


@dataclass(frozen=True)
class Record:
    """An entry of the registry.

    `size` is its bytes, in single precision and without file headers. `folders` are those
    below `records/` with a file for each client. `obsolete` names further files to delete
    when a client is forgotten, and `renew` stages their replacements. `with_clusters`: it
    can be kept by a run whose clients are in clusters.
    """

    name: str
    title: str
    summary: str
    memory: str
    size: Callable[[Extent], int]
    recorder: Callable[[Keeping], Recorder]
    folders: tuple[str, ...]
    obsolete: Callable[[Erasure], list[str]] = lambda _erasure: []
    renew: Callable[[Erasure], None] = lambda _erasure: None
    options: type[NoOptions] = NoOptions
    with_clusters: bool = False

    def own_files(self, clients: Sequence[str]) -> list[str]:
        """The files of single clients, whether they exist or not."""
        return [record_file(folder, client) for client in clients for folder in self.folders]


def int_tensor(value: int) -> Tensor:
    """A whole number as a record writes it."""
    return torch.tensor(value, dtype=torch.int64, device="cpu")


def every_file_of(name: str) -> Callable[[Erasure], list[str]]:
    """`obsolete` of records that depend on the path of the shared model, which no longer holds."""
    return lambda erasure: [
        file for file in erasure.store.names("records/") if kind_of(file) == name
    ]


def kind_of(name: str) -> str:
    """The record that a file below the run folder belongs to.

    >>> kind_of("records/fisher-total.safetensors"), kind_of("records/psi/ann.safetensors")
    ('fisher', 'psi')
    """
    return name.split("/")[1].removesuffix(".safetensors").partition("-")[0]


def round_residual(weight: float, of_client: Tensors, of_round: Tensors) -> Tensors:
    """w (D_u - D) / (1 - w), in double precision: the mean with the client minus that without it.

    `of_client` is what the client sent and `of_round` the mean, both as changes or both as
    tensors. For a client that was alone in its round (weight 1) give changes: without it
    there would have been no round, so the residual is the whole change.

    >>> with_ann = {"w": torch.tensor([2.0])}  # the mean of ann's 5 and bob's 1, weights 1 and 3
    >>> round_residual(0.25, {"w": torch.tensor([5.0])}, with_ann)
    {'w': tensor([1.], dtype=torch.float64)}
    """
    if weight >= 1:
        return {name: tensor.to(torch.float64, copy=True) for name, tensor in of_round.items()}
    share = weight / (1 - weight)
    return {
        name: (tensor.to(torch.float64) - of_round[name]) * share
        for name, tensor in of_client.items()
    }
