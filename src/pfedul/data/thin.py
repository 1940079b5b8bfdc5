"""A smaller data set, for quick runs."""

from __future__ import annotations

import numpy as np
import torch

from pfedul.base.randomness import numpy_generator
from pfedul.data.datasets.base import Dataset, Owners
from pfedul.data.partitions.deal import Indices
from pfedul.data.samples import TensorSamples


def thin(dataset: Dataset, samples: int | None, seed: int) -> Dataset:
    """At most `samples` training samples drawn by seed, and test samples in the same ratio."""
    if samples is None or samples >= len(dataset.train):
        return dataset
    in_test = max(1, round(len(dataset.test) * samples / len(dataset.train)))
    train = _draw(len(dataset.train), samples, seed, "train")
    test = _draw(len(dataset.test), min(in_test, len(dataset.test)), seed, "test")
    owners = dataset.owners
    return Dataset(
        take(dataset.train, train),
        take(dataset.test, test),
        dataset.classes,
        None if owners is None else Owners(owners.train[train], owners.test[test]),
    )


def take(samples: TensorSamples, rows: Indices) -> TensorSamples:
    """Some of the samples, as a copy."""
    return TensorSamples(*samples.batch(torch.from_numpy(rows)))


def _draw(available: int, wanted: int, seed: int, part: str) -> Indices:
    rng = numpy_generator(seed, "samples", part)
    return np.sort(rng.choice(available, wanted, replace=False))
