"""Losses, hits and batches whose values are known; and what attacks make of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from helpers.tasks import TwoInputs
from pfedul.audit.ask.logits import logits_of
from pfedul.audit.attacks import signals
from pfedul.base.inputs import answer, joined
from pfedul.client import measure
from pfedul.data.samples import (
    ClientData,
    DatasetSamples,
    TensorSamples,
    fingerprint,
    tensor_samples,
)
from pfedul.engine.messages import attach_data, detach_data
from pfedul.engine.sharedbuffer import SharedBuffer
from pfedul.models import build_model, model_factory
from pfedul.records.exact import exact_fisher
from pfedul.tasks import TASKS, task_of
from pfedul.tasks.base import score
from pfedul.tasks.collate import stack_inputs
from pfedul.unlearn.training import OBJECTIVES, unlearning_loss

ZERO, ONE = math.log(2), math.log(1 + math.e)
"""Cross-entropies of two classes with a margin of 0, and of -1."""

KNOWN = {
    "classification": ([[0.0, 0.0], [1.0, 0.0]], [0, 1], [ZERO, ONE], [1, 0]),
    "multi-label": (
        [[0.0, 1.0], [1.0, -1.0]],
        [[0, 0], [1, 0]],
        [(ZERO + ONE) / 2, ONE - 1],
        [0, 1],
    ),
    "regression:tolerance=1": ([[1.0, 2.0], [0.0, 1.0]], [[0, 2], [3, 1]], [0.5, 4.5], [1, 0]),
    "token-classification": (
        [[[0.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [9.0, 0.0]]],
        [[0, 1], [1, -100]],
        [(ZERO + ONE) / 2, ONE],
        [0.5, 0],
    ),
    "language-modelling": (
        [[[0.0, 0.0], [1.0, 0.0], [9.0, 0.0]], [[1.0, 0.0], [9.0, 0.0], [0.0, 0.0]]],
        [[1, 0, 1], [0, 1, -100]],
        [(ZERO + ONE) / 2, ONE],
        [0.5, 0],
    ),
}
"""Task -> output, labels, the loss of each sample, its hits."""


@pytest.mark.parametrize(("name", "known"), KNOWN.items(), ids=KNOWN)
def test_losses_and_hits(name, known):
    task, output, target = task_of(name), torch.tensor(known[0]), torch.tensor(known[1])
    target = task.checked(output, target, "a")
    losses = task.loss(output, target, reduction="none")
    assert losses.tolist() == pytest.approx(known[2], rel=1e-6)
    assert task.hits(output, target).tolist() == known[3]
    together = [float(task.loss(output, target, reduction=how)) for how in ("mean", "sum")]
    assert together == pytest.approx([np.mean(known[2]), sum(known[2])], rel=1e-6)


@pytest.mark.parametrize(("name", "known"), KNOWN.items(), ids=KNOWN)
def test_attacks_find_the_loss_of_the_task_in_what_they_are_given(name, known):
    task, output, target = task_of(name), torch.tensor(known[0]), torch.tensor(known[1])
    rows, labels = task.answers(output, target).numpy(), task.labels(target).numpy()
    np.testing.assert_allclose(signals.loss(rows, labels), known[2], rtol=1e-6)
    margins = signals.margin(rows, labels)
    assert list(np.argsort(margins)) == list(np.argsort(known[2])[::-1])


def test_classification_is_torchs_own_and_attacks_read_the_logits():
    task, logits = task_of("classification"), torch.randn(4, 3)
    assert task.loss is F.cross_entropy
    assert task.answers(logits, torch.zeros(4).long()) is logits
    assert OBJECTIVES["unlearn"](task) is unlearning_loss


def test_a_score_is_finite_for_any_loss():
    assert torch.isfinite(score(torch.tensor([0.0, 1e-30, 1.0, 1e6]))).all()


def test_the_bounded_loss_is_the_same_for_every_task():
    """Of two labels with opposite logits the first is a class with that margin."""
    output, target = torch.tensor([[1.0]]), torch.tensor([[1.0]])
    other = unlearning_loss(torch.tensor([[0.0, 1.0]]), torch.tensor([1]))
    torch.testing.assert_close(OBJECTIVES["unlearn"](task_of("multi-label"))(output, target), other)


# Batches


def test_sequences_of_different_lengths_are_filled_up_with_a_mask():
    made = DatasetSamples([([5, 6, 7], 1), ([8], 0)], filled=True).batch(torch.tensor([0, 1]))
    x, y = made
    assert x["input_ids"].tolist() == [[5, 6, 7], [8, 0, 0]]
    assert x["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert y.tolist() == [1, 0]


def test_the_next_token_is_asked_for_where_there_is_one():
    task = task_of("language-modelling")
    samples = DatasetSamples([([5, 6, 7], None), ([8, 9], None)], task=task, filled=True)
    assert samples.batch(torch.tensor([0, 1]))[1].tolist() == [[5, 6, 7], [8, 9, -100]]


def test_labels_of_a_prompt_are_put_aside():
    task = task_of("language-modelling")
    samples = DatasetSamples([([5, 6, 7], [-100, -100, 7])], task=task)
    assert samples.batch(torch.tensor([0]))[1].tolist() == [[-100, -100, 7]]


def test_samples_may_be_dictionaries_with_labels():
    item = {"input_ids": [4, 5], "attention_mask": [1, 1], "labels": 1}
    short = {"input_ids": [6], "attention_mask": [1], "labels": 0}
    x, y = DatasetSamples([item, short]).batch(torch.tensor([0, 1]))
    assert x["input_ids"].tolist() == [[4, 5], [6, 0]]
    assert x["attention_mask"].tolist() == [[1, 1], [1, 0]]
    assert y.tolist() == [1, 0]


def test_dictionaries_of_text_need_no_labels_and_no_mask():
    task, items = task_of("language-modelling"), [{"input_ids": [5, 6, 7]}, {"input_ids": [8, 9]}]
    masked = [item | {"attention_mask": [1] * len(item["input_ids"])} for item in items]
    for dataset in (items, masked):
        x, y = DatasetSamples(dataset, task=task).batch(torch.tensor([0, 1]))
        assert x["input_ids"].tolist() == [[5, 6, 7], [8, 9, 0]]
        assert x["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
        assert y.tolist() == [[5, 6, 7], [8, 9, -100]]


def test_samples_may_have_several_inputs_by_place():
    item = ((torch.ones(2), 3), 1)
    x, y = DatasetSamples([item, item]).batch(torch.tensor([0, 1]))
    assert [part.tolist() for part in x] == [[[1, 1], [1, 1]], [3, 3]]
    assert y.tolist() == [1, 1]


class Joined:
    """A Dataset that makes its own batches."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return index

    def collate(self, items):
        return {"x": torch.tensor(items)[:, None].float(), "labels": torch.tensor(items)}


def test_a_dataset_may_make_its_own_batches():
    x, y = DatasetSamples(Joined()).batch(torch.tensor([1, 0]))
    assert (x["x"].tolist(), y.tolist()) == ([[1], [0]], [1, 0])


def test_bytes_in_a_row_stay_tokens():
    rows = [(torch.tensor([1, 255], dtype=torch.uint8), None)]
    samples = DatasetSamples(rows, task=task_of("language-modelling"), filled=True)
    x, y = samples.batch(torch.tensor([0]))
    assert x["input_ids"].dtype == torch.int64
    assert x["input_ids"].tolist() == y.tolist() == [[1, 255]]


def test_bytes_of_an_image_in_a_dataset_are_those_of_tensors():
    images = torch.randint(256, (4, 1, 2, 2), dtype=torch.uint8)
    listed = DatasetSamples([(image, 0) for image in images]).batch(torch.arange(4))[0]
    tensors = tensor_samples(images, torch.zeros(4).long(), "a").x
    assert listed.dtype == torch.float32
    assert torch.equal(listed, tensors)


def test_batches_of_different_widths_are_put_together():
    made = joined([{"a": torch.ones(1, 1)}, {"a": torch.ones(1, 2)}])
    assert made["a"].tolist() == [[1, 0], [1, 1]]


# Several inputs, everywhere


def two_inputs() -> TensorSamples:
    x = torch.arange(12.0).view(4, 3) / 12
    return TensorSamples({"left": x[:, :1], "right": x[:, 1:]}, torch.arange(4.0)[:, None])


def test_several_inputs_reach_the_model_by_name_and_by_place():
    model, x = TwoInputs(1), two_inputs().x
    assert torch.equal(answer(model, x), answer(model, tuple(x.values())))


def test_several_inputs_go_through_shared_memory_and_have_a_fingerprint_of_their_own():
    one = ClientData(two_inputs(), two_inputs())
    buffer = SharedBuffer()
    skeleton, places = detach_data({"a": one}, buffer)
    back = attach_data(skeleton, buffer.read(places))["a"]
    assert {n: t.tolist() for n, t in back.train.x.items()} == {
        n: t.tolist() for n, t in one.train.x.items()
    }
    assert fingerprint(back) == fingerprint(one)
    x, y = one.train.x, one.train.y
    renamed = TensorSamples({"right": x["left"], "left": x["right"]}, y)
    assert fingerprint(ClientData(renamed, one.test)) != fingerprint(one)


def test_the_exact_fisher_of_a_squared_error():
    """d/dw (w x - y)^2 = 2 x (w x - y); here w = 1, so (2 * 1 * 1)^2 and (2 * 2 * -1)^2."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    data = TensorSamples(torch.tensor([[1.0], [2.0]]), torch.tensor([[0.0], [3.0]]))
    found = exact_fisher(model, data, ["weight"], task=task_of("regression"))
    assert found["weight"].item() == pytest.approx((4 + 16) / 2)


LABELS = {
    "classification": (1, 0),
    "token-classification": ([0, 1, 1], [1, 0]),
    "language-modelling": (None, None),
}


@pytest.mark.parametrize("name", LABELS)
def test_the_exact_fisher_of_a_transformer_with_masks(name):
    """Filled up in one batch it is the mean of the two samples alone."""
    task, name_of = task_of(name), "embedding.weight"
    items = list(zip([[5, 6, 7], [5, 6]], LABELS[name], strict=True))
    model = model_factory("transformer:width=4,depth=1", (1,), 8, task)()

    def fisher(items, filled):
        data = DatasetSamples(items, task=task, filled=filled)
        return exact_fisher(model, data, [name_of], task=task)[name_of]

    alone = [fisher([item], filled=False) for item in items]
    torch.testing.assert_close(fisher(items, filled=True), sum(alone) / 2)


# The transformer


def transformer(name: str) -> nn.Module:
    torch.manual_seed(0)
    return model_factory("transformer:width=8", (1,), 6, task_of(name))().eval()


@pytest.mark.parametrize("name", LABELS)
def test_what_is_filled_up_changes_no_answer(name):
    model, task = transformer(name), task_of(name)
    short = torch.tensor([[1, 2, 3]])
    longer = stack_inputs([[1, 2, 3], [1, 2, 3, 4, 5]], filled=True)
    alone, beside = answer(model, short)[0], answer(model, longer)[0]
    torch.testing.assert_close(beside[:3] if task.by_position else beside, alone)


def test_only_a_language_model_is_blind_to_what_follows():
    one, other = torch.tensor([[1, 2, 3]]), torch.tensor([[1, 2, 5]])
    for name in ("token-classification", "language-modelling"):
        model = transformer(name)
        same = torch.equal(model(one)[:, :2], model(other)[:, :2])
        assert same == (name == "language-modelling")


def test_every_layer_has_a_group():
    model = build_model("transformer", (5,), 3)
    grouped = [part for parts in model.layer_groups().values() for part in parts]
    owners = dict.fromkeys(name.rpartition(".")[0] for name, _ in model.named_parameters())
    assert sorted(grouped) == sorted(owners)


def test_a_measure_is_the_mean_over_samples():
    data, task = two_inputs(), task_of("regression:tolerance=1")
    model = TwoInputs(1)
    found = measure(model, data, task)
    errors = answer(model, data.x) - data.y
    assert found["loss"] == pytest.approx(errors.square().mean().item(), rel=1e-5)
    assert found["accuracy"] == (errors.abs() <= 1).float().mean().item()
    assert logits_of(model, data, task).shape == (4, 2)


def test_tasks_are_listed():
    assert [kind.name for kind in TASKS] == [name.partition(":")[0] for name in KNOWN]
