"""A fixed training/test split for data that come without an official one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pfedul.base.randomness import numpy_generator

ONE_IN = 5
# Constant, so that what is a test sample never depends on a run's seed.
SPLIT_SEED = 0

Indices = NDArray[np.int64]


def stratified_split(
    labels: NDArray[np.int64], owners: NDArray[np.str_] | None = None
) -> tuple[Indices, Indices]:
    """Indices of the training part (80 %) and of the test part (20 %).

    Samples are lined up by owner, then label, then chance, and every fifth is a
    test sample: so each owner and each class gives a fifth, give or take one.
    """
    chance = numpy_generator(SPLIT_SEED, "split").random(len(labels))
    keys = (chance, labels) if owners is None else (chance, labels, owners)
    order = np.lexsort(keys)
    is_test = np.zeros(len(labels), dtype=bool)
    is_test[order[ONE_IN // 2 :: ONE_IN]] = True
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)
