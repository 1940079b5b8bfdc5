"""Synthetic text, made here: writers who each mix topics with habits of their own.

A sentence is a Markov chain of words. The next word follows the topic's transitions or, in
two cases of five, the writer's own. So there is something to share, the topics, and something
personal. Words are numbered from 1, since 0 fills up short sequences.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pfedul.base.options import option
from pfedul.base.randomness import numpy_generator
from pfedul.data.checks import numbered_ids
from pfedul.data.datasets.base import Dataset, DatasetKind, Owners, SearchPath
from pfedul.data.samples import stratified_split, tensor_samples

_SEED = 0  # constant: the data must not depend on a run's seed
_OWN = 0.4  # how often a writer follows habits of its own
_SPREAD = 0.05  # of the Dirichlet distribution of transitions: a few words follow each word

Table = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class SentencesOptions:
    """How much is written."""

    writers: int = option(10, "number of writers", at_least=1)
    each: int = option(100, "sentences of each writer", at_least=10)
    length: int = option(12, "words of a sentence", at_least=2)
    words: int = option(31, "number of different words", at_least=2)
    topics: int = option(4, "number of topics: the classes", at_least=2)


def load(_search: SearchPath, options: SentencesOptions) -> Dataset:
    """The sentences, the same ones every time, split at random by writer and topic."""
    rng = numpy_generator(_SEED, "sentences")
    habits = rng.dirichlet(np.full(options.words, _SPREAD), (options.topics, options.words))
    written = [_written(habits, options, rng) for _ in range(options.writers)]
    y = np.tile(np.arange(options.each) % options.topics, options.writers)
    owners = np.repeat(np.array(numbered_writers(options.writers)), options.each)
    x, labels = torch.from_numpy(np.concatenate(written)), torch.from_numpy(y)
    train, test = stratified_split(y, owners)
    return Dataset(
        tensor_samples(x[train], labels[train], "sentences (training part)"),
        tensor_samples(x[test], labels[test], "sentences (test part)"),
        options.topics,
        Owners(owners[train], owners[test]),
        random_split=True,
    )


def numbered_writers(count: int) -> list[str]:
    """As clients are numbered.

    >>> numbered_writers(1)
    ['writer-00']
    """
    return [name.replace("client", "writer") for name in numbered_ids(count)]


def _written(habits: Table, options: SentencesOptions, rng: np.random.Generator) -> Whole:
    """All sentences of one writer, topic after topic in turn."""
    own = rng.dirichlet(np.full(options.words, _SPREAD), options.words)
    chances = ((1 - _OWN) * habits + _OWN * own).cumsum(axis=-1)
    topics = np.arange(options.each) % options.topics
    words = rng.integers(options.words, size=options.each)
    text = [words]
    for _ in range(options.length - 1):
        drawn = rng.random((options.each, 1)) > chances[topics, words]
        words = np.minimum(drawn.sum(axis=1), options.words - 1)
        text.append(words)
    return np.stack(text, axis=1).astype(np.int64) + 1


SENTENCES = DatasetKind(
    name="sentences",
    summary="synthetic sentences, words as numbers, made here; topics are classes",
    options=SentencesOptions,
    files="",
    published="pfedul",
    licence="public domain",
    load=load,
)
