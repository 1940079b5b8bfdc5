"""Arrays of attacks: checks of shape and values, and halves to fit on and to try on."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pfedul.base.randomness import numpy_generator
from pfedul.errors import PfedulError

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

_SHAPES = {1: "[samples]", 2: "[models or samples, values]", 3: "[folds, views, samples]"}


def finite(what: str, values: ArrayLike, axes: int = 1, fewest: int = 1) -> Array:
    """`values` as float64, of so many axes, with at least `fewest` along the first."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != axes:
        raise PfedulError(f"The {what} must have the shape {_SHAPES[axes]}, not {array.shape}.")
    if array.shape[0] < fewest or not array.size:
        raise PfedulError(f"The {what} are too few: {array.shape[0]}, at least {fewest} needed.")
    if not np.isfinite(array).all():
        raise PfedulError(f"The {what} hold NaN or infinity; look at the model that made them.")
    return array


def logits_and_labels(logits: ArrayLike, labels: ArrayLike) -> tuple[Array, Whole]:
    """Logits [samples, classes] and one whole label for each sample, checked to fit."""
    table, classes = finite("logits", logits, axes=2), np.asarray(labels)
    if table.shape[1] < 2:
        raise PfedulError("The logits must be of at least two classes.")
    if classes.shape != table.shape[:1] or not np.issubdtype(classes.dtype, np.integer):
        raise PfedulError(
            f"There must be one whole-number label for each of the {len(table)} rows of logits."
        )
    if classes.min() < 0 or classes.max() >= table.shape[1]:
        raise PfedulError(f"The labels must lie from 0 to {table.shape[1] - 1}, as the logits do.")
    return table, classes.astype(np.int64)


def probabilities(what: str, values: ArrayLike, axes: int = 1) -> Array:
    """`values` as float64, checked to lie from 0 to 1."""
    array = finite(what, values, axes)
    if array.min() < 0 or array.max() > 1:
        raise PfedulError(f"The {what} must be probabilities, from 0 to 1.")
    return array


def same_samples(what: str, left: Array, right: Array) -> None:
    """Refuse arrays whose last axes, the samples, differ in length."""
    if left.shape[-1] != right.shape[-1]:
        raise PfedulError(
            f"The {what} must be of the same samples, "
            f"not {left.shape[-1]} and {right.shape[-1]} of them."
        )


def two_model_sets(
    what: str, unlearned: ArrayLike, retrained: ArrayLike, fewest: int
) -> tuple[Array, Array]:
    """Two arrays [models, samples] of the same samples, with `fewest` models or more each."""
    left = finite(f"{what} of unlearned models", unlearned, axes=2, fewest=fewest)
    right = finite(f"{what} of retrained models", retrained, axes=2, fewest=fewest)
    same_samples(what, left, right)
    return left, right


def halves(rows: Array, seed: int, whose: str) -> tuple[Array, Array]:
    """A random half of the rows and the rest; of an odd number the rest has one more.

    Rows are put in order first: the same samples in another order fall into the same halves.
    """
    ordered = rows[np.lexsort(rows.T[::-1])]
    first, second = half_places(len(rows), seed, whose)
    return ordered[first], ordered[second]


def half_places(count: int, seed: int, whose: str) -> tuple[Whole, Whole]:
    """Places of a random half of so many samples and those of the rest, whatever they hold."""
    if count < 2:
        raise PfedulError(f"An attack needs two {whose} or more: one to fit it, one to try it.")
    shuffled = numpy_generator(seed, "halves", whose).permutation(count)
    return shuffled[: count // 2], shuffled[count // 2 :]
