"""One class for each sample: cross-entropy, and the share of samples that are classified right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from pfedul.base.inputs import Inputs
from pfedul.base.registry import NoOptions
from pfedul.tasks.base import LearningTask, TaskKind

WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def hits(output: Tensor, target: Tensor) -> Tensor:
    """Whether the label has the largest logit.

    >>> hits(torch.tensor([[1.0, 2.0], [2.0, 1.0]]), torch.tensor([1, 1]))
    tensor([ True, False])
    """
    right: Tensor = output.argmax(1) == target
    return right


def stack(labels: Sequence[Any]) -> Tensor:
    return torch.tensor([_whole(label) for label in labels], device="cpu")


def _whole(label: Any) -> int | float:
    """Fractions stay as they are, so that they are refused and not cut off."""
    number = label.item() if hasattr(label, "item") else label
    return number if isinstance(number, float) else int(number)


def targets(_x: Inputs, y: Tensor) -> Tensor:
    if y.ndim != 1 or y.dtype not in WHOLE or (len(y) and int(y.min()) < 0):
        raise ValueError(
            "must be a list of whole numbers from 0 up; other labels need another --task "
            "('pfedul tasks')"
        )
    return y.long().contiguous()


def outputs(target: Tensor) -> int:
    """The classes 0, 1, ... up to the largest label."""
    return int(target.max()) + 1


CLASSIFICATION = LearningTask(
    name="classification",
    figure="share of samples with the right class",
    loss=F.cross_entropy,
    hits=hits,
    stack=stack,
    targets=targets,
    outputs=outputs,
    classes=True,
)

CLASSIFICATION_KIND = TaskKind(
    name="classification",
    summary="one class for each sample; labels: whole numbers from 0 up",
    options=NoOptions,
    make=lambda _options: CLASSIFICATION,
)
