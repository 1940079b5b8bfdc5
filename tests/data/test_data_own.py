"""The user's own clients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from pfedul.data.own import own_clients
from pfedul.data.samples import DatasetSamples, TensorSamples
from pfedul.errors import PfedulError

X, Y = torch.rand(4, 3), torch.tensor([0, 1, 2, 1])


class Noisy(Dataset):
    """Every reading draws from torch's stream."""

    def __init__(self, labels):
        self.labels = labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return torch.rand(3), self.labels[index]


def test_arrays_and_tensors_are_taken():
    data = own_clients({"a": ((X, Y), (X.numpy(), Y.numpy())), "b": [(X, Y), (X, Y)]})
    assert list(data.clients) == ["a", "b"]
    assert isinstance(data.clients["a"].test, TensorSamples)
    assert torch.equal(data.clients["a"].test.x, X)
    assert data.classes == 3


def test_classes_count_up_to_the_largest_label_anywhere():
    assert own_clients({"a": ((X, Y), (X, Y)), "b": ((X, Y), (X, Y + 4))}).classes == 7
    assert own_clients({"a": (Noisy([1, 0]), Noisy([8]))}).classes == 9


def test_a_dataset_is_read_without_a_trace_in_the_random_stream():
    torch.manual_seed(1)
    wanted = torch.rand(1)
    torch.manual_seed(1)
    data = own_clients({"a": (Noisy([1, 0]), Noisy([1]))})
    assert torch.equal(torch.rand(1), wanted)
    assert isinstance(data.clients["a"].train, DatasetSamples)


MISTAKES = {
    "no clients": ({}, "no clients"),
    "a path": ({"../a": ((X, Y), (X, Y))}, "is not allowed"),
    "cases": ({"A": ((X, Y), (X, Y)), "a": ((X, Y), (X, Y))}, "differ only by case"),
    "no pair": ({"a": (X, Y, X)}, r"pair \(train, test\)"),
    "empty test": ({"a": ((X, Y), (X[:0], Y[:0]))}, "'a' has an empty"),
    "empty dataset": ({"a": (Noisy([]), (X, Y))}, "'a' has an empty"),
    "not a number": ({"a": ((X / 0 * 0, Y), (X, Y))}, "NaN"),
    "negative": ({"a": (Noisy([-1]), Noisy([0]))}, "from 0 up"),
    "no labels": ({"a": ([X, X, X], Noisy([0]))}, "pairs"),
    "shapes": ({"a": ((X, Y), (X, Y)), "b": ((X[:, :2], Y), (X, Y))}, r"\(2,\) in b, train"),
    "customer numbers": ({"a": ((X, Y), (X, Y + 10**9))}, "without gaps"),
    "words": ({"a": ((X, Y), Noisy(["cat"]))}, "pairs"),
}


@pytest.mark.parametrize(("mapping", "words"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_named(mapping, words):
    with pytest.raises(PfedulError, match=words):
        own_clients(mapping)


def test_integer_arrays_of_any_width_are_labels():
    data = own_clients({"a": ((X, Y.numpy().astype(np.uint8)), (X, [0, 1, 2, 1]))})
    assert data.clients["a"].train.y.dtype == torch.int64
