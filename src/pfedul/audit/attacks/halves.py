"""Two halves of the samples, so that nothing is judged by a rule that was fitted on it."""

from __future__ import annotations

import numpy as np

from pfedul.audit.attacks.checks import Array
from pfedul.errors import PfedulError
from pfedul.randomness import numpy_generator


def halves(rows: Array, seed: int, whose: str) -> tuple[Array, Array]:
    """A random half of the rows and the rest; of an odd number the rest has one more.

    Rows are put in order first: the same samples in another order fall into the same halves.

    >>> first, second = halves(np.array([[4.0], [1.0], [3.0], [2.0]]), 0, "members")
    >>> sorted([*first[:, 0].tolist(), *second[:, 0].tolist()])
    [1.0, 2.0, 3.0, 4.0]
    """
    if len(rows) < 2:
        raise PfedulError(f"An attack needs two {whose} or more: one to fit it, one to try it.")
    ordered = rows[np.lexsort(rows.T[::-1])]
    shuffled = ordered[numpy_generator(seed, "halves", whose).permutation(len(rows))]
    middle = len(rows) // 2
    return shuffled[:middle], shuffled[middle:]
