"""Samples from what users hold."""

import numpy as np
import pytest
import torch

from pfedul import PfedulError
from pfedul.data.samples import DatasetSamples, as_samples

X, Y = np.arange(6.0).reshape(3, 2), np.array([0, 1, 1])


def test_a_pair_of_arrays_is_copied_and_made_ready():
    x = X.copy()
    samples = as_samples((x, Y), "a")
    x[0, 0] = 99
    batch, labels = samples.batch(torch.tensor([2, 0]))
    assert batch.tolist() == [[4.0, 5.0], [0.0, 1.0]]
    assert samples.as_type(torch.float32).batch(torch.tensor([0]))[0].dtype == torch.float32
    assert labels.tolist() == [1, 0]


def test_bytes_without_height_and_width_are_tokens():
    samples = as_samples((np.array([[0, 7, 255]], dtype=np.uint8), [0]), "a")
    assert samples.x.dtype == torch.int64  # what an embedding takes
    assert samples.x.tolist() == [[0, 7, 255]]


def test_grey_images_without_channels_are_images():
    samples = as_samples((np.full((2, 4, 4), 255, dtype=np.uint8), [0, 1]), "a")
    assert samples.x.dtype == torch.float32
    assert samples.x.max().item() == 1.0


def test_bytes_become_numbers_from_0_to_1():
    samples = as_samples((np.full((2, 1, 2, 2), 255, dtype=np.uint8), [0, 1]), "a")
    assert samples.batch(torch.tensor([0]))[0].max().item() == 1.0


def test_a_list_of_pairs_is_a_dataset_even_with_two_samples():
    samples = as_samples([(torch.ones(2), 0), (torch.zeros(2), 1)], "a")
    assert isinstance(samples, DatasetSamples)
    assert samples.batch(torch.tensor([1]))[1].tolist() == [1]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ((X, Y[:2]), "2 labels for 3 inputs"),
        ((1, 2), "labels of a must be a list"),
        ((X, Y * 0.5), "whole numbers"),
        ((X, Y - 1), "whole numbers"),
        ((X, Y.astype(complex)), "whole numbers"),
        ((["x", "y"], [0, 1]), "are not numbers"),
        ((X, Y, Y), "must be a pair"),
        (7, "not int"),
        ((np.array([[1.0, np.inf]]), [0]), "NaN or infinite"),
    ],
)
def test_what_cannot_be_samples_gets_a_sentence(given, sentence):
    with pytest.raises(PfedulError, match=sentence):
        as_samples(given, "a")
