"""From the names of a data set and a partition to every client's data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from pfedul.base.randomness import numpy_generator
from pfedul.data.checks import check_ids
from pfedul.data.datasets import DATASETS
from pfedul.data.datasets.base import Dataset, Owners
from pfedul.data.datasets.files import search_path
from pfedul.data.partitions import PARTITIONS
from pfedul.data.partitions.base import ClientIndices, Holdings
from pfedul.data.samples import ClientData, FederatedData, Indices, TensorSamples
from pfedul.errors import PfedulError

_SHOWN = 5  # small clients that an error names


def load_clients(
    data: str,
    partition: str,
    clients: int | None,
    seed: int,
    root: Path | None,
    samples: int | None = None,
    min_samples: int = 10,
    small_clients: str = "error",
    test_samples: int | None = None,
) -> FederatedData:
    """The data set `data`, dealt to clients by `partition`.

    `clients=None` means 10, or every owner for the partition `natural`. With `samples` at most so
    many training samples are used, drawn by seed, and test samples in the same ratio, or
    `test_samples` of them. A client with fewer than `min_samples` training
    samples or without a test sample is refused, or left out with `small_clients="drop"`.
    """
    kind, options = DATASETS.parse(data)
    method, method_options = PARTITIONS.parse(partition)
    if small_clients not in {"error", "drop"}:
        raise PfedulError(f"small_clients is 'error' or 'drop', not '{small_clients}'.")
    counts = {"clients": clients, "samples": samples, "min_samples": min_samples}
    _check_counts(**counts, test_samples=test_samples)
    dataset = thin(kind.load(search_path(root), options), samples, seed, test_samples)
    holdings = method.split(dataset, clients, seed, method_options)
    kept, warnings = without_small(holdings, min_samples, small_clients)
    check_ids(kept)
    dealt = {
        name: ClientData(take(dataset.train, held.train), take(dataset.test, held.test))
        for name, held in kept.items()
    }
    warnings += _without_holder(dataset, kept)
    return FederatedData(dealt, dataset.classes, warnings, dataset.random_split)


def _check_counts(**counts: int | None) -> None:
    for name, count in counts.items():
        if count is not None and count < 1:
            raise PfedulError(f"The number '{name}' must be at least 1, not {count}.")


def _without_holder(dataset: Dataset, holdings: Holdings) -> tuple[str, ...]:
    """A warning if the data have classes that none of the clients holds."""
    labels = dataset.train.y.numpy()
    held = np.concatenate([labels[each.train] for each in holdings.values()])
    lost = np.setdiff1d(labels, held)
    names = ", ".join(map(str, lost))
    return (f"No client holds training samples of these classes: {names}.",) if len(lost) else ()


def without_small(
    holdings: Holdings, min_samples: int, small_clients: str
) -> tuple[Holdings, tuple[str, ...]]:
    """The clients that are large enough, and a warning for each that was left out."""
    small = {
        name: held
        for name, held in holdings.items()
        if len(held.train) < min_samples or not len(held.test)
    }
    if small and (small_clients == "error" or len(small) == len(holdings)):
        raise PfedulError(_refusal(small, len(holdings), min_samples))
    warnings = tuple(
        f"Client {_describe(name, held)} was left out as too small." for name, held in small.items()
    )
    return {name: held for name, held in holdings.items() if name not in small}, warnings


def _refusal(small: Holdings, clients: int, min_samples: int) -> str:
    shown = ", ".join(_describe(name, held) for name, held in list(small.items())[:_SHOWN])
    more = f" and {len(small) - _SHOWN} more" if len(small) > _SHOWN else ""
    drop = "" if len(small) == clients else "--small-clients drop, "
    return (
        f"{len(small)} of {clients} clients hold fewer than {min_samples} training samples or no "
        f"test sample: {shown}{more}; try {drop}fewer clients or another seed."
    )


def _describe(name: str, held: ClientIndices) -> str:
    return f"{name} ({len(held.train)} training, {len(held.test)} test)"


def thin(
    dataset: Dataset, samples: int | None, seed: int, test_samples: int | None = None
) -> Dataset:
    """At most `samples` training samples, drawn by seed, and at most `test_samples` test samples.

    If only `samples` is given, test samples are thinned in the same ratio.
    """
    if samples is not None and test_samples is None:
        test_samples = max(1, round(len(dataset.test) * samples / len(dataset.train)))
    train = _rows(len(dataset.train), samples, seed, "train")
    test = _rows(len(dataset.test), test_samples, seed, "test")
    if len(train) == len(dataset.train) and len(test) == len(dataset.test):
        return dataset
    owners = dataset.owners
    return Dataset(
        take(dataset.train, train),
        take(dataset.test, test),
        dataset.classes,
        None if owners is None else Owners(owners.train[train], owners.test[test]),
        dataset.random_split,
    )


def take(samples: TensorSamples, rows: Indices) -> TensorSamples:
    """Some of the samples, as a copy."""
    return TensorSamples(*samples.batch(torch.from_numpy(rows)))


def _rows(available: int, wanted: int | None, seed: int, part: str) -> Indices:
    """Rows of the samples that are used, in order: all of them, or as many as are wanted."""
    if wanted is None or wanted >= available:
        return np.arange(available)
    rng = numpy_generator(seed, "samples", part)
    return np.sort(rng.choice(available, wanted, replace=False))
