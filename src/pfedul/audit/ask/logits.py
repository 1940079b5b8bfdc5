"""What models answer: the arrays that attacks work on.

Always in eval mode, with one thread, in batches of one size: a model's answers are then
the same bits wherever an audit asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pfedul.base.device import device_of_model
from pfedul.base.inputs import answer
from pfedul.base.randomness import random_stream
from pfedul.base.tensors import Tensors, load_tensors, read_tensors
from pfedul.base.threads import one_thread
from pfedul.data.samples import Samples, TensorSamples
from pfedul.personalization.local import FORWARD_BATCH, head_inputs
from pfedul.protocol import Workbench
from pfedul.split import head_of
from pfedul.tasks.base import LearningTask
from pfedul.tasks.classification import CLASSIFICATION

Logits = NDArray[np.float64]
"""One row for each sample, one column for each class."""


def logits_of(model: nn.Module, samples: Samples, task: LearningTask = CLASSIFICATION) -> Logits:
    """What attacks read of the model's answers, logits for each sample, in double precision."""
    batches = torch.split(torch.arange(len(samples), device="cpu"), FORWARD_BATCH)
    there = samples.to(device_of_model(model))
    with _asking(model):
        answers = [task.answers(answer(model, x), y) for x, y in map(there.batch, batches)]
    logits: Logits = torch.cat(answers).cpu().to(torch.float64).numpy()
    return logits


def head_features(bench: Workbench, model: nn.Module, samples: Samples) -> TensorSamples | None:
    """What the model's head is given for each sample, with the labels.

    None where the head alone would not give the model's logits from it: the model goes
    on after its head, or the samples are a Dataset, which may read otherwise each time.
    """
    head = bench.head or head_of(model)
    with _asking(model):
        there = samples.to(device_of_model(model))
        return head_inputs(model, model.get_submodule(head), there)


def logits_from_heads(
    bench: Workbench, shared: Tensors, personals: Mapping[str, Tensors], samples: Samples
) -> dict[str, Logits]:
    """The logits of each client's model, shared and personal tensors together.

    Where clients differ in their heads alone, the samples pass the body only once. Where
    they do not differ at all (FedAvg), all get one array.
    """
    model, task = bench.working_model(), bench.training.task
    fresh = read_tensors(model, bench.split.personal)
    load_tensors(model, shared)
    if not any(personals.values()):
        return dict.fromkeys(personals, logits_of(model, samples, task))
    part, inputs = _part_that_differs(bench, model, personals, samples)
    answers = {}
    for client, personal in personals.items():
        load_tensors(model, fresh, shared, personal)  # all: nothing of the client before is left
        answers[client] = logits_of(part, inputs, task)
    return answers


def _part_that_differs(
    bench: Workbench, model: nn.Module, personals: Mapping[str, Tensors], samples: Samples
) -> tuple[nn.Module, Samples]:
    """The head and its inputs if they will do, else the model and the samples."""
    names = set(bench.split.personal).union(*personals.values())
    if bench.head is None or not all(name.startswith(f"{bench.head}.") for name in names):
        return model, samples
    features = head_features(bench, model, samples)
    return (model, samples) if features is None else (model.get_submodule(bench.head), features)


@contextmanager
def _asking(model: nn.Module) -> Iterator[None]:
    """With one random stream: a Dataset's random transforms are the same for every model."""
    model.eval()
    with torch.no_grad(), one_thread(), random_stream(0, "answers"):
        yield
