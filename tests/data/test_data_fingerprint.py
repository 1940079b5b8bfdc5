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


def test_of_a_dataset_only_the_length_counts():
    two, three = ([(torch.zeros(2), 0)] * count for count in (2, 3))
    prints = [fingerprint(ClientData(DatasetSamples(d), TensorSamples(X, Y))) for d in (two, three)]
    assert prints[0] != prints[1]
