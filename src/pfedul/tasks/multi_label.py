"""Any number of labels for each sample: binary cross-entropy, the mean over its labels.

A sample is a hit if all its labels are right. The mean over labels would be near 1 for a
model that finds none of its rare labels, and a ratio of it would hide what a removal cost.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from pfedul.base.inputs import Inputs
from pfedul.base.registry import NoOptions
from pfedul.tasks.base import EachSample, LearningTask, TaskKind, in_columns, stacked, width


def losses(output: Tensor, target: Tensor) -> Tensor:
    """The mean over labels, for each sample.

    >>> losses(torch.zeros(1, 2), torch.tensor([[0.0, 1.0]]))  # log 2
    tensor([0.6931])
    """
    each = F.binary_cross_entropy_with_logits(output, target.to(output), reduction="none")
    return each.mean(1)


def hits(output: Tensor, target: Tensor) -> Tensor:
    """Whether all labels are right.

    >>> hits(torch.tensor([[1.0, -1.0], [1.0, 1.0]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    tensor([ True, False])
    """
    right: Tensor = ((output > 0) == (target > 0.5)).all(1)
    return right


def targets(_x: Inputs, y: Tensor) -> Tensor:
    if y.ndim != 2 or not bool(((y == 0) | (y == 1)).all()):
        raise ValueError(
            "must be a table of 0 and 1, a row for each sample and a column for each label "
            "(task multi-label)"
        )
    return in_columns(y.float() if y.dtype == torch.bool else y)


MULTI_LABEL = LearningTask(
    name="multi-label",
    figure="share of samples with all labels right",
    loss=EachSample(losses),
    hits=hits,
    stack=stacked,
    targets=targets,
    outputs=width,
    same_width=True,
)

MULTI_LABEL_KIND = TaskKind(
    name="multi-label",
    summary="any number of labels for each sample; labels: a table of 0 and 1",
    options=NoOptions,
    make=lambda _options: MULTI_LABEL,
)
