"""The fingerprint tells equal data from different data."""

from __future__ import annotations

import torch

from pfedul.data.samples import ClientData, DatasetSamples, TensorSamples, fingerprint

X, Y = torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 1])


def of(x=X, y=Y, swap=False):
    parts = (TensorSamples(x, y), TensorSamples(X, Y))
    return fingerprint(ClientData(*(parts[::-1] if swap else parts)))


def test_equal_data_have_equal_fingerprints_wherever_they_lie():
    assert of() == of(X.clone(), Y.clone())
    assert of() == of(X.t().contiguous().t())
    assert len(of()) == 64


def test_any_difference_shows():
    others = [of(x=X + 1), of(y=1 - Y), of(x=X.double()), of(x=X.reshape(3, 1, 2))]
    others += [of(x=X + 1, swap=True), of(x=X[:2], y=Y[:2])]
    assert len({of(), *others}) == len(others) + 1


class Listed(torch.utils.data.Dataset):
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def of_dataset(dataset):
    return fingerprint(ClientData(DatasetSamples(dataset), TensorSamples(X, Y)))


def test_of_a_dataset_only_the_length_counts():
    two, three, other = [(X[0], 0)] * 2, [(X[0], 0)] * 3, [(X[1], 0)] * 2
    assert of_dataset(Listed(two)) == of_dataset(Listed(other)) != of_dataset(Listed(three))


def test_of_a_list_the_samples_count():
    lists = [[(x, 0)] * 2 for x in X] + [[(X[0], 1), (X[0], 0)], [(X[0], 0)] * 3]
    assert len({*map(of_dataset, lists)}) == len(lists)
    assert of_dataset(lists[0]) == of_dataset([(X[0].clone(), 0)] * 2)
