"""From the user's words to every client's data."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pfedul.data.client_ids import check_ids
from pfedul.data.datasets import DATASETS
from pfedul.data.datasets.base import Dataset
from pfedul.data.datasets.files import search_path
from pfedul.data.partitions import PARTITIONS
from pfedul.data.partitions.base import Holdings
from pfedul.data.samples import ClientData, FederatedData
from pfedul.data.small_clients import policy, without_small
from pfedul.data.thin import take, thin
from pfedul.errors import PfedulError


def load_clients(
    data: str,
    partition: str,
    clients: int | None,
    seed: int,
    root: Path | None,
    samples: int | None = None,
    min_samples: int = 10,
    small_clients: str = "error",
) -> FederatedData:
    """The data set `data`, dealt to clients by `partition`.

    `clients=None` means 10, or every owner for the partition `natural`. With
    `samples` at most so many training samples are used, drawn by seed. A client
    with fewer than `min_samples` training samples or without a test sample is
    refused, or left out with `small_clients="drop"`.
    """
    kind, options = DATASETS.parse(data)
    method, method_options = PARTITIONS.parse(partition)
    choice = policy(small_clients)
    _check_counts(clients=clients, samples=samples, min_samples=min_samples)
    dataset = thin(kind.load(search_path(root), options), samples, seed)
    holdings = method.split(dataset, clients, seed, method_options)
    kept, warnings = without_small(holdings, min_samples, choice)
    check_ids(kept)
    return _federated(dataset, kept, warnings)


def _check_counts(**counts: int | None) -> None:
    for name, count in counts.items():
        if count is not None and count < 1:
            raise PfedulError(f"The number '{name}' must be at least 1, not {count}.")


def _federated(dataset: Dataset, holdings: Holdings, warnings: tuple[str, ...]) -> FederatedData:
    clients = {
        name: ClientData(take(dataset.train, held.train), take(dataset.test, held.test))
        for name, held in holdings.items()
    }
    return FederatedData(clients, dataset.classes, warnings + _without_holder(dataset, holdings))


def _without_holder(dataset: Dataset, holdings: Holdings) -> tuple[str, ...]:
    """A warning if the data have classes that none of the clients holds."""
    labels = dataset.train.y.numpy()
    held = np.concatenate([labels[each.train] for each in holdings.values()])
    lost = np.setdiff1d(labels, held)
    names = ", ".join(map(str, lost))
    return (f"No client holds training samples of these classes: {names}.",) if len(lost) else ()
