"""Synthetic sentences."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pfedul.data.datasets.base import SearchPath
from pfedul.data.datasets.sentences import SentencesOptions, load
from pfedul.data.load import load_clients

OPTIONS = SentencesOptions(writers=3, each=40, length=6, words=9, topics=4)


@pytest.fixture(scope="module")
def dataset():
    return load(SearchPath(), OPTIONS)


def test_they_are_the_same_every_time(dataset):
    again = load(SearchPath(), OPTIONS)
    assert torch.equal(again.train.x, dataset.train.x)
    assert torch.equal(again.test.y, dataset.test.y)


def test_words_are_numbered_from_1_and_a_fifth_is_for_tests(dataset):
    assert dataset.train.x.shape == (96, 6)
    assert dataset.train.x.dtype == torch.int64
    assert (int(dataset.train.x.min()), int(dataset.train.x.max())) == (1, 9)
    assert np.bincount(dataset.test.y).tolist() == [6, 6, 6, 6]
    assert np.unique(dataset.owners.test, return_counts=True)[1].tolist() == [8, 8, 8]


def test_topics_and_writers_tell_what_comes_next(dataset):
    """The likeliest next word is right more often, the more is known of who writes about what."""
    x, y = dataset.train.x.numpy(), dataset.train.y.numpy()
    pairs = np.stack([x[:, :-1], x[:, 1:]]).reshape(2, -1)
    topic = np.repeat(y, 5)
    writer = np.repeat(np.unique(dataset.owners.train, return_inverse=True)[1], 5)
    nobody = np.zeros_like(topic)
    guessed = [right(pairs, known) for known in (nobody, topic, topic * 3 + writer)]
    assert guessed[0] + 0.05 < guessed[1] < guessed[2] - 0.05


def right(pairs: np.ndarray, known: np.ndarray) -> float:
    """How often the next word is the one that most often follows."""
    counts = np.zeros((known.max() + 1, 10, 10))
    np.add.at(counts, (known, *pairs), 1)
    return counts.max(axis=2).sum() / counts.sum()


def test_writers_are_clients():
    dealt = load_clients("sentences:writers=3,each=40", "natural", None, 0, None)
    assert sorted(dealt.clients) == ["writer-00", "writer-01", "writer-02"]
    assert (dealt.classes, dealt.random_split) == (4, True)
