"""A fresh probe that takes no time: a linear head, by a few accelerated steps of descent.

Y. Nesterov, Soviet Math. Dokl. 27 (1983). The step is the inverse of a bound of the curvature
(D. Böhning, Ann. Inst. Statist. Math. 44 (1992)), so nothing is tuned and no step overshoots.
"""

from __future__ import annotations

import numpy as np

from pfedul.audit.attacks.arrays import Array, Whole, finite
from pfedul.audit.attacks.signals import log_softmax

STEPS = 30
DECAY = 1e-2


def linear_probe(features: Array, labels: Whole, asked: Array, classes: int) -> Array:
    """Logits of the rows `asked`, from a regression that is fitted on features and labels.

    >>> sides = np.array([[-1.0], [1.0]] * 5)
    >>> linear_probe(sides, np.array([0, 1] * 5), np.array([[-2.0], [2.0]]), 2).argmax(axis=1)
    array([0, 1])
    """
    features = finite("features", features, axes=2)
    centre, spread = features.mean(axis=0), features.std(axis=0)
    spread[spread == 0] = 1
    x, fitted = (_with_bias((rows - centre) / spread) for rows in (features, asked))
    return fitted @ _weights(x, np.eye(classes)[labels])


def _with_bias(rows: Array) -> Array:
    return np.column_stack([rows, np.ones(len(rows))])


def _weights(x: Array, wanted: Array) -> Array:
    """Weights of a regression of classes on x, started at zero."""
    curvature = _largest_square(x) / len(x) / 2 + DECAY
    now = ahead = np.zeros((x.shape[1], wanted.shape[1]))
    for step in range(STEPS):
        errors = np.exp(log_softmax(x @ ahead)) - wanted
        before, now = now, ahead - (x.T @ errors / len(x) + DECAY * ahead) / curvature
        ahead = now + step / (step + 3) * (now - before)
    return now


def _largest_square(x: Array) -> float:
    """About the square of x's largest singular value, by power iteration, with a margin.

    >>> bool(1.0 <= _largest_square(np.diag([0.1, 1.0, 0.5])) < 1.1)
    True
    """
    direction = np.ones(x.shape[1])
    for _ in range(20):
        direction = x.T @ (x @ direction)
        direction /= np.linalg.norm(direction)
    return 1.05 * float(np.linalg.norm(x @ direction)) ** 2
