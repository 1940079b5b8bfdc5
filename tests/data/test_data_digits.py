"""The built-in digits."""

from __future__ import annotations

import pytest
import torch

from pfedul.data.datasets.base import SearchPath
from pfedul.data.datasets.digits import DigitsOptions, load
from pfedul.errors import PfedulError
from pfedul.settings import Settings


def test_all_digits_are_there_in_the_range_of_the_constants():
    digits = load(SearchPath(), DigitsOptions())
    assert (len(digits.train), len(digits.test), digits.classes) == (1438, 359, 10)
    assert digits.train.x.shape[1:] == (1, 8, 8)
    assert digits.train.x.dtype == torch.float32
    assert digits.train.x.is_contiguous()
    assert (float(digits.train.x.min()), float(digits.train.x.max())) == (-1, 1)
    assert digits.owners is None


def test_the_first_image_is_a_zero_as_scikit_learn_prints_it():
    from sklearn.datasets import load_digits

    digits = load(SearchPath(), DigitsOptions())
    everything = torch.cat([digits.train.x, digits.test.x])
    labels = torch.cat([digits.train.y, digits.test.y])
    first = torch.tensor(load_digits().images[0] / 8 - 1, dtype=torch.float32)
    same = (everything == first).flatten(1).all(1)
    assert labels[same].tolist() == [0]


def test_both_parts_hold_every_class_in_proportion():
    digits = load(SearchPath(), DigitsOptions())
    train, test = digits.train.y.bincount(), digits.test.y.bincount()
    assert float((test / (train + test) - 0.2).abs().max()) < 0.01


def test_more_of_them_can_be_held_out():
    digits = load(SearchPath(), DigitsOptions(test=0.8))
    assert (len(digits.train), len(digits.test)) == (359, 1438)
    assert digits.random_split


def test_a_run_on_the_usual_split_is_named_as_before():
    assert Settings(data="digits").data == "digits"
    assert Settings(data="digits:0.8").data == "digits:test=0.8"


@pytest.mark.parametrize("share", ["0", "1", "much"])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(PfedulError, match="test"):
        Settings(data=f"digits:test={share}")
