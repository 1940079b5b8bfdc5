"""Streams that depend on their place and on nothing else."""

import torch

from pfedul.base.randomness import derive_seed, numpy_generator, random_stream


def test_every_part_of_the_place_counts():
    places = [(0, "fit", 1, "a"), (1, "fit", 1, "a"), (0, "init", 1, "a"), (0, "fit", 2, "a")]
    places += [(0, "fit", 1, "b"), (0, "fit", "1a"), (0, "fit", 11)]
    assert len({derive_seed(*place) for place in places}) == len(places)


def test_seeds_are_the_same_in_every_version():
    """A changed derivation would make old runs unrepeatable."""
    assert derive_seed(0, "fit", 1, "client-00") == 465801657426922811


def test_a_stream_is_repeatable_and_leaves_the_callers_alone():
    torch.manual_seed(1)
    with random_stream(0, "test"):
        first = torch.rand(2)
    after = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(after, torch.rand(1))
    with random_stream(0, "test"):
        assert torch.equal(first, torch.rand(2))


def test_numpy_streams():
    assert numpy_generator(0, "a").random() == numpy_generator(0, "a").random()
    assert numpy_generator(0, "a").random() != numpy_generator(0, "b").random()
