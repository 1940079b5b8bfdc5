"""What both places of distillation, server and client, take out of a model and its data."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pfedul.base.tensors import Tensors, load_tensors, read_tensors
from pfedul.data.samples import Samples
from pfedul.errors import PfedulError
from pfedul.split import Split


def one_input(samples: Samples) -> Tensor:
    """A single input, for its shape and type alone."""
    x, _ = samples.batch(torch.zeros(1, dtype=torch.int64))
    if not x.is_floating_point():
        raise PfedulError(
            "The inputs of this run are whole numbers, which a generator cannot draw; "
            "choose another method ('pfedul methods')."
        )
    return x[0]


def trained_names(model: nn.Module, split: Split) -> list[str]:
    """Shared parameters that the model's author did not freeze; tied ones by their first name."""
    named = model.named_parameters()
    return [name for name, p in named if name in split.shared and p.requires_grad]


def completed(model: nn.Module, split: Split, start: Tensors, student: Tensors) -> Tensors:
    """All shared tensors, tied names included, with the student's in their places."""
    load_tensors(model, start, student)
    return read_tensors(model, split.shared)
