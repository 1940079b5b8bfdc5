"""Local training: batches, frozen parts, cached features."""

import pytest
import torch
from torch import nn

from helpers.toys import WithNorm, samples
from pfedul.base.randomness import random_stream
from pfedul.data.samples import DatasetSamples
from pfedul.personalization import LocalTraining
from pfedul.personalization.local import head_inputs, shuffled_batches, train_head


@pytest.mark.parametrize(("count", "size"), [(1, 4), (8, 4), (9, 4), (10, 4), (5, 1), (3, 100)])
def test_an_epoch_has_every_sample_once(count, size):
    batches = list(shuffled_batches(count, size))
    assert sorted(torch.cat(batches).tolist()) == list(range(count))


def test_no_batch_of_one_where_it_can_be_helped():
    assert [len(batch) for batch in shuffled_batches(9, 4)] == [4, 5]


def trained_head(data, model, **training) -> torch.Tensor:
    with random_stream(0, "test"):
        train_head(model, "head", data, LocalTraining(batch_size=4, **training), epochs=3)
    return model.head.weight.detach().clone()


def test_cached_features_give_the_head_that_the_slow_way_gives():
    """The slow way is taken for a Dataset, which could transform its samples at random."""
    torch.manual_seed(0)
    model, data = WithNorm(), samples(12)
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    fast = trained_head(data, model)
    model.load_state_dict(start)
    pairs = [(data.x[i], int(data.y[i])) for i in range(12)]
    slow = trained_head(DatasetSamples(pairs), model)
    assert not torch.equal(fast, start["head.weight"])
    torch.testing.assert_close(fast, slow, rtol=1e-5, atol=1e-6)


class ScaledAfterHead(WithNorm):
    def forward(self, x):
        return 2 * super().forward(x)


def test_features_are_not_cached_when_the_model_goes_on_after_its_head():
    model = ScaledAfterHead().eval()
    assert head_inputs(model, model.head, samples(6)) is None
    assert head_inputs(WithNorm().eval(), nn.Linear(8, 3), samples(6)) is None


def test_parameters_that_the_author_froze_stay_frozen():
    model = WithNorm()
    model.body[0].weight.requires_grad_(False)
    train_head(model, "head", samples(6), LocalTraining(), 1)
    assert not model.body[0].weight.requires_grad
    assert model.body[0].bias.requires_grad
