"""Local training: batches, frozen parts, cached features."""

import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from helpers.toys import WithNorm, samples
from pfedul.base.randomness import random_stream
from pfedul.data.samples import DatasetSamples
from pfedul.personalization import LocalTraining
from pfedul.personalization.local import (
    count_batches,
    head_inputs,
    run_sgd,
    shuffled_batches,
    train_head,
)


@pytest.mark.parametrize(("count", "size"), [(1, 4), (8, 4), (9, 4), (10, 4), (5, 1), (3, 100)])
def test_an_epoch_has_every_sample_once(count, size):
    batches = list(shuffled_batches(count, size))
    assert sorted(torch.cat(batches).tolist()) == list(range(count))


@pytest.mark.parametrize(
    ("count", "size", "lengths"),
    [
        (9, 4, [4, 5]),  # a batch of one sample has no statistics at all
        (7, 3, [3, 4]),
        (5, 2, [2, 3]),
        (34, 32, [34]),  # 2 and 7 samples give poor ones: less than a quarter of a batch
        (71, 32, [32, 39]),
        (72, 32, [32, 32, 8]),
        (10, 4, [4, 4, 2]),
        (3, 32, [3]),
        (1, 4, [1]),
        (3, 1, [1, 1, 1]),
    ],
)
def test_a_small_rest_of_an_epoch_joins_the_batch_before_it(count, size, lengths):
    assert [len(batch) for batch in shuffled_batches(count, size)] == lengths


def test_without_a_small_rest_batches_are_as_they_fall():
    with random_stream(0, "test"):
        batches = list(shuffled_batches(72, 32))
    with random_stream(0, "test"):
        plain = torch.split(torch.randperm(72), 32)
    assert all(map(torch.equal, batches, plain))


def test_batches_are_counted_as_they_are_made():
    for size in (1, 2, 3, 4, 5, 8, 9, 32):
        for count in range(1, 100):
            assert count_batches(count, size) == len(list(shuffled_batches(count, size)))


def test_running_statistics_of_a_client_with_two_samples_more_than_a_batch_are_its_own():
    """A batch of two samples would pull them far off at the end of every epoch."""
    torch.manual_seed(0)
    model, data = WithNorm(), samples(34)
    model.train()
    standing_still = LocalTraining(batch_size=32, lr=0.0)
    run_sgd(model, list(model.parameters()), data, standing_still, epochs=60)
    with torch.no_grad():
        x = model.body[0](data.x)
    torch.testing.assert_close(model.body[1].running_var, x.var(0), rtol=0.02, atol=0)


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


def rates(**cosine) -> list[float]:
    """The rate of each step: a slope of one moves the weight by just that."""
    weight, seen = nn.Parameter(torch.zeros(())), [0.0]

    def after_step() -> bool:
        seen.append(-weight.item())
        return False

    training = LocalTraining(1, 8, 0.1, 0.0, cosine=True, **cosine)
    run_sgd(
        lambda _x: weight,
        [weight],
        samples(24),
        training,
        loss_of=lambda output, _labels: output,
        after_step=after_step,
    )
    return [after - before for before, after in pairwise(seen)]


def test_a_cosine_over_parts_goes_on_where_the_part_before_ended():
    expected = [0.05 * (1 + math.cos(math.pi * step / 6)) for step in range(6)]
    assert rates(part=1, parts=2) + rates(part=2, parts=2) == pytest.approx(expected)
    assert rates() == pytest.approx([0.1, 0.075, 0.025])
