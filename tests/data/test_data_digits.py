"""The built-in digits."""

from __future__ import annotations

import torch

from pfedul.base.registry import NoOptions
from pfedul.data.datasets.base import SearchPath
from pfedul.data.datasets.digits import load


def test_all_digits_are_there_in_the_range_of_the_constants():
    digits = load(SearchPath(), NoOptions())
    assert (len(digits.train), len(digits.test), digits.classes) == (1438, 359, 10)
    assert digits.train.x.shape[1:] == (1, 8, 8)
    assert digits.train.x.dtype == torch.float32
    assert digits.train.x.is_contiguous()
    assert (float(digits.train.x.min()), float(digits.train.x.max())) == (-1, 1)
    assert digits.owners is None


def test_the_first_image_is_a_zero_as_scikit_learn_prints_it():
    from sklearn.datasets import load_digits

    digits = load(SearchPath(), NoOptions())
    everything = torch.cat([digits.train.x, digits.test.x])
    labels = torch.cat([digits.train.y, digits.test.y])
    first = torch.tensor(load_digits().images[0] / 8 - 1, dtype=torch.float32)
    same = (everything == first).flatten(1).all(1)
    assert labels[same].tolist() == [0]


def test_both_parts_hold_every_class_in_proportion():
    digits = load(SearchPath(), NoOptions())
    train, test = digits.train.y.bincount(), digits.test.y.bincount()
    assert float((test / (train + test) - 0.2).abs().max()) < 0.01
