"""Every natural owner of data (for example a writer) is a client (Caldas et al., 2018, LEAF)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pfedul.base.randomness import numpy_generator
from pfedul.base.registry import NoOptions
from pfedul.data.checks import clean_id
from pfedul.data.datasets.base import Dataset, Owners
from pfedul.data.partitions.base import ClientIndices, Holdings, PartitionKind
from pfedul.data.samples import Indices
from pfedul.errors import PfedulError


def split(dataset: Dataset, clients: int | None, seed: int, _options: NoOptions) -> Holdings:
    """What each owner holds: all owners, or `clients` of them drawn by seed."""
    if dataset.owners is None:
        raise PfedulError(
            "The partition 'natural' needs data with owners; choose the data set femnist, "
            "or npz with an array client (or client_train and client_test)."
        )
    train, test = _rows_of_each(dataset.owners.train), _rows_of_each(dataset.owners.test)
    nothing = np.empty(0, dtype=np.int64)
    chosen = _chosen(dataset.owners, clients, seed)
    return {
        identifier: ClientIndices(train.get(owner, nothing), test.get(owner, nothing))
        for identifier, owner in _by_identifier(chosen).items()
    }


def _chosen(owners: Owners, clients: int | None, seed: int) -> list[str]:
    names = np.union1d(owners.train, owners.test)
    if clients is None:
        return [str(name) for name in names]
    if clients > len(names):
        raise PfedulError(
            f"There are {len(names)} owners in the data, fewer than the {clients} clients asked "
            "for; ask for fewer clients."
        )
    drawn = numpy_generator(seed, "partition", "owners").choice(names, clients, replace=False)
    return [str(name) for name in np.sort(drawn)]


def _rows_of_each(owners: NDArray[np.str_]) -> dict[str, Indices]:
    names, numbers, counts = np.unique(owners, return_inverse=True, return_counts=True)
    rows = np.split(np.argsort(numbers, kind="stable"), np.cumsum(counts)[:-1])
    return {str(name): piece for name, piece in zip(names, rows, strict=False)}


def _by_identifier(owners: list[str]) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for owner in owners:
        other = chosen.setdefault(clean_id(owner), owner)
        if other != owner:
            raise PfedulError(
                f"The owners '{other}' and '{owner}' would both be called '{clean_id(owner)}'; "
                "rename one of them in the data."
            )
    return chosen


NATURAL = PartitionKind(
    name="natural",
    summary="every natural owner of data, such as a writer, is a client",
    options=NoOptions,
    split=split,
)
