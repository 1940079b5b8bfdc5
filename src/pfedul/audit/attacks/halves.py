"""Two halves of the samples, so that nothing is judged by a rule that was fitted on it."""

from __future__ import annotations

import numpy as np

from pfedul.audit.attacks.arrays import Array, Whole
from pfedul.base.randomness import numpy_generator
from pfedul.errors import PfedulError


def halves(rows: Array, seed: int, whose: str) -> tuple[Array, Array]:
    """A random half of the rows and the rest; of an odd number the rest has one more.

    Rows are put in order first: the same samples in another order fall into the same halves.

    >>> first, second = halves(np.array([[4.0], [1.0], [3.0], [2.0]]), 0, "members")
    >>> sorted([*first[:, 0].tolist(), *second[:, 0].tolist()])
    [1.0, 2.0, 3.0, 4.0]
    """
    ordered = rows[np.lexsort(rows.T[::-1])]
    first, second = half_places(len(rows), seed, whose)
    return ordered[first], ordered[second]


def half_places(count: int, seed: int, whose: str) -> tuple[Whole, Whole]:
    """Places of a random half of so many samples and those of the rest, whatever they hold.

    >>> first, second = half_places(5, 0, "members")
    >>> len(first), sorted([*first.tolist(), *second.tolist()])
    (2, [0, 1, 2, 3, 4])
    """
    if count < 2:
        raise PfedulError(f"An attack needs two {whose} or more: one to fit it, one to try it.")
    shuffled = numpy_generator(seed, "halves", whose).permutation(count)
    return shuffled[: count // 2], shuffled[count // 2 :]
