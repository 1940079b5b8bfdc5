"""Optimisers, the rate over the rounds, and augmentation: chosen by name, no change by default."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from helpers.commands import refuse
from helpers.told import AtProgress
from pfedul import Federation, PfedulError
from pfedul.base.randomness import random_stream
from pfedul.base.tensors import read_tensors, same_tensors
from pfedul.data.samples import TensorSamples
from pfedul.personalization import LocalTraining
from pfedul.personalization.augmentation import augmented, crop, flip
from pfedul.personalization.descent import Descent
from pfedul.personalization.local import head_inputs, run_sgd, train_head

TINY = {
    "data": "digits",
    "samples": 240,
    "clients": 3,
    "model": "mlp:hidden=16",
    "rounds": 3,
    "local_epochs": 1,
    "engine": "inline",
}


def trained(path, **changes) -> Federation:
    federation = Federation.create(path, **{**TINY, **changes})
    federation.train()
    return federation


def stopped_after_one(path, **changes) -> Federation:
    """A run that was interrupted in its second round."""

    def stop(progress) -> None:
        if progress.round == 2:
            raise KeyboardInterrupt

    federation = Federation.create(path, **{**TINY, **changes})
    with pytest.raises(KeyboardInterrupt):
        federation.train(callbacks=[AtProgress(stop)])
    assert federation.rounds == 1
    return federation


def images(count: int, classes: int, size: int) -> TensorSamples:
    return TensorSamples(torch.randn(count, 1, size, size), torch.randint(classes, (count,)))


# Optimisers

TORCH = {
    "sgd": lambda p, t: torch.optim.SGD(
        p, lr=t.lr, momentum=t.momentum, weight_decay=t.weight_decay
    ),
    "adam": lambda p, t: torch.optim.Adam(p, lr=t.lr, weight_decay=t.weight_decay),
    "adamw": lambda p, t: torch.optim.AdamW(p, lr=t.lr, weight_decay=t.weight_decay),
}


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("name", TORCH)
def test_steps_are_those_of_torch(name, decay):
    training = LocalTraining(lr=0.05, momentum=0.9, weight_decay=decay, optimizer=name)
    torch.manual_seed(0)
    ours, theirs = nn.Linear(5, 3), nn.Linear(5, 3)
    theirs.load_state_dict(ours.state_dict())
    descent, reference = Descent(list(ours.parameters()), training), None
    reference = TORCH[name](theirs.parameters(), training)
    for step in range(6):
        x = torch.randn(8, 5)
        for model, clear in ((ours, descent.clear), (theirs, reference.zero_grad)):
            clear()
            # In some steps the bias has no gradient.
            answers = nn.functional.linear(x, model.weight) if step % 3 == 1 else model(x)
            answers.square().mean().backward()
        descent.step(training.lr)
        reference.step()
    assert all(map(torch.equal, ours.parameters(), theirs.parameters()))


def test_a_step_without_any_gradient_moves_nothing():
    weight = nn.Parameter(torch.ones(2))
    Descent([weight], LocalTraining(optimizer="adam")).step(0.1)
    assert weight.tolist() == [1, 1]


# The rate


def test_the_cosine_begins_at_the_rate_and_ends_near_zero(tmp_path):
    settings = Federation.create(tmp_path / "run", **TINY, schedule="cosine", lr=0.1).settings
    rates = [settings.rate(number) for number in range(1, 6)]
    expected = [0.1 * (1 + math.cos(math.pi * done / 3)) / 2 for done in range(3)]
    assert rates == pytest.approx([*expected, expected[-1], expected[-1]])
    assert replace(settings, schedule="constant").rate(2) is None


def test_a_round_is_trained_at_its_rate(tmp_path):
    """The second of two rounds has half the rate, so with one step each half the update."""
    steps = {"local_epochs": 1, "batch_size": 10_000, "momentum": 0.0, "rounds": 2}

    def second_update(**changes) -> torch.Tensor:
        run = stopped_after_one(tmp_path / f"run{len(changes)}", **steps, **changes)
        before = {name: tensor.clone() for name, tensor in run.shared.items()}
        run.train()
        return torch.cat([(run.shared[name] - before[name]).flatten() for name in before])

    constant, falling = second_update(), second_update(schedule="cosine")
    assert constant.norm() > 0
    assert (falling - constant / 2).norm() < 0.01 * constant.norm()


def test_a_falling_rate_has_a_fixed_number_of_rounds(tmp_path):
    run = trained(tmp_path / "run", schedule="cosine")
    with pytest.raises(PfedulError, match="falls to zero over its 3 rounds"):
        run.train(5)
    run.close()
    assert "it cannot have 7" in refuse("train", tmp_path / "run", "--rounds", "7")


def test_a_resumed_run_with_adam_and_a_cosine_is_the_same(tmp_path):
    choices = {"schedule": "cosine", "optimizer": "adamw", "augment": "flip+crop", "model": "cnn"}
    whole = trained(tmp_path / "whole", **choices)
    stopped_after_one(tmp_path / "parts", **choices).close()
    resumed = Federation.open(tmp_path / "parts")
    resumed.train()
    assert same_tensors(whole.shared, resumed.shared)


def test_every_choice_trains_and_forgets(tmp_path):
    choices = {"optimizer": "adam", "lr": 0.01, "schedule": "cosine", "augment": "flip+crop"}
    run = trained(tmp_path / "run", **choices, local_epochs=9)
    assert run.measure().mean > 0.5
    outcome = run.forget("client-00")
    assert outcome.targets == ("client-00",)
    assert "client-00" not in run.clients


# Augmentation


def test_half_of_the_images_are_mirrored_whole():
    x = torch.arange(400 * 12, dtype=torch.float32).view(400, 1, 3, 4)
    with random_stream(0, "test"):
        flipped = flip(x)
    mirrored = [torch.equal(new, old.flip(2)) for new, old in zip(flipped, x, strict=True)]
    same = [torch.equal(new, old) for new, old in zip(flipped, x, strict=True)]
    assert sum(mirrored) + sum(same) == 400
    assert 160 < sum(mirrored) < 240


def test_a_crop_moves_all_channels_alike_and_fills_with_zeros():
    x = torch.zeros(500, 2, 16, 16)
    x[:, 0, 8, 8], x[:, 1, 8, 8] = 1.0, 2.0
    with random_stream(0, "test"):
        moved = crop(x)
    assert moved.shape == x.shape
    places = [tuple(one[0].nonzero()[0].tolist()) for one in moved]
    assert all(one[1][place] == 2 for one, place in zip(moved, places, strict=True))
    assert set(places) == {(row, column) for row in range(6, 11) for column in range(6, 11)}


def test_no_augmentation_is_the_same_tensor():
    x = torch.randn(3, 1, 8, 8)
    assert augmented(x, "none") is x


def test_a_head_is_fitted_to_features_that_are_not_cached_under_augmentation(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "pfedul.personalization.local.head_inputs", lambda *a: seen.append(a) or head_inputs(*a)
    )
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    data = images(20, 3, 4)
    train_head(model, "1", data, LocalTraining(epochs=1), epochs=1)
    assert len(seen) == 1
    train_head(model, "1", data, LocalTraining(epochs=1, augment="flip"), epochs=1)
    assert len(seen) == 1


def test_training_sees_the_changed_images():
    seen = []
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    data = images(40, 2, 8)

    def watched(x):
        seen.append(x)
        return model(x)

    run_sgd(watched, list(model.parameters()), data, LocalTraining(epochs=1, augment="crop"))
    originals = {tuple(one.flatten().tolist()) for one in data.x}
    changed = [tuple(one.flatten().tolist()) not in originals for one in torch.cat(seen)]
    assert sum(changed) > 20
    assert read_tensors(model, ["1.bias"])


def test_augmentation_is_for_images_only(tmp_path):
    rows = (torch.randn(9, 4), torch.arange(9) % 2)
    with pytest.raises(PfedulError, match="--augment flip is for images of the shape"):
        Federation.create(tmp_path / "run", data={"a": (rows, rows)}, model="mlp", augment="flip")
