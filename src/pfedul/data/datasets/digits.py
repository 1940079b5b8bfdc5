"""Handwritten digits that come with scikit-learn: 1797 images of 8 x 8 points, 10 classes.

Published by E. Alpaydin and C. Kaynak (1998), UCI Machine Learning Repository,
"Optical Recognition of Handwritten Digits". scikit-learn ships its test part
only, so there is no official split; a fixed one is made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from pfedul.base.options import option
from pfedul.data.datasets.base import Dataset, DatasetKind, SearchPath
from pfedul.data.datasets.files import normalised
from pfedul.data.samples import TEST_SHARE, stratified_split, tensor_samples

CLASSES = 10
LARGEST_VALUE = 16.0
# No constants were published: these carry the range 0..1 to -1..1.
MEAN, STD = (0.5,), (0.5,)


@dataclass(frozen=True)
class DigitsOptions:
    """How much of the data is held out."""

    # None and not 0.2: the name of a run's data set stays what it was before there were options.
    test: float | None = option(
        None, "share of the samples that are test samples; a fifth", above=0, below=1
    )


def load(_search: SearchPath, options: DigitsOptions) -> Dataset:
    """The digits, split in the same way every time."""
    # Imported here because it takes a second.
    from sklearn.datasets import load_digits

    points, labels = load_digits(return_X_y=True)
    images = points.reshape(-1, 1, 8, 8).astype(np.float32) / np.float32(LARGEST_VALUE)
    x, y = normalised(images, MEAN, STD), torch.from_numpy(labels.astype(np.int64))
    share = TEST_SHARE if options.test is None else options.test
    train, test = map(torch.from_numpy, stratified_split(y.numpy(), share=share))
    return Dataset(
        tensor_samples(x[train], y[train], "digits (training part)"),
        tensor_samples(x[test], y[test], "digits (test part)"),
        CLASSES,
        random_split=True,
    )


DIGITS = DatasetKind(
    name="digits",
    summary="1797 handwritten digits of 8 x 8 points, built in; 10 classes",
    options=DigitsOptions,
    files="",
    published="UCI Machine Learning Repository, https://archive.ics.uci.edu/dataset/80",
    licence="CC BY 4.0",
    load=load,
)
