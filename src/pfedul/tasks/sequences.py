"""What the tasks with an answer at each position share: losses, hits and filled labels.

A sample's loss is the mean over its positions, so every sample counts alike, long or short.
Positions with the label -100 do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from pfedul.base.inputs import joined
from pfedul.tasks.classification import WHOLE

IGNORED = -100
"""The label of positions that do not count; torch's own default."""


def losses(output: Tensor, target: Tensor) -> Tensor:
    """The mean cross-entropy of each sample.

    >>> losses(torch.zeros(1, 3, 2), torch.tensor([[0, 1, -100]]))  # log 2
    tensor([0.6931])
    """
    each = F.cross_entropy(output.transpose(1, 2), target, ignore_index=IGNORED, reduction="none")
    return each.sum(1) / _counted(target)


def hits(output: Tensor, target: Tensor) -> Tensor:
    """The share of its positions that are right, for each sample.

    >>> logits = torch.tensor([[[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]])
    >>> hits(logits, torch.tensor([[0, 1, -100]]))
    tensor([0.5000])
    """
    share: Tensor = (output.argmax(2) == target).sum(1) / _counted(target)
    return share


def _counted(target: Tensor) -> Tensor:
    """How many positions count; at least 1, to divide by."""
    return (target != IGNORED).sum(1).clamp(min=1)


def stack(labels: Sequence[Any]) -> Tensor:
    """Labels of each position, filled up to the longest.

    >>> stack([[1, 2], [3]]).tolist()
    [[1, 2], [3, -100]]
    """
    rows = [torch.as_tensor(label, device="cpu")[None] for label in labels]
    filled: Tensor = joined(rows, filler=IGNORED)
    return filled


def checked(y: Tensor) -> Tensor:
    """Labels [samples, positions], of which at least one counts in each sample."""
    fits = y.ndim == 2 and y.dtype in WHOLE
    if not fits or bool(((y.long() < 0) & (y.long() != IGNORED)).any()):
        raise ValueError(
            f"must be whole numbers from 0 up, or {IGNORED} for none, at each position of a sample"
        )
    if len(y) and not bool((y.long() != IGNORED).any(1).all()):
        raise ValueError(f"are {IGNORED} at all positions of a sample; leave such samples out")
    return y.long().contiguous()


def outputs(target: Tensor) -> int:
    """The classes 0, 1, ... up to the largest label."""
    return int(target.max()) + 1
