"""Numbers for each sample: squared error, the mean over its numbers.

A sample is a hit if all its numbers are within a tolerance. PPS and CFI are ratios of a figure
that must not be negative and must not depend on which samples are left out. The share of hits
lies from 0 to 1 and is a mean over samples. R2 has no lower bound, is negative for a poor
model, and changes with the spread of the targets in a client's few test samples.
The tolerance is in units of the targets, so scale these first, to a deviation of about 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import Tensor

from pfedul.base.inputs import Inputs
from pfedul.base.options import option
from pfedul.tasks.base import EachSample, LearningTask, TaskKind, in_columns, stacked, width


@dataclass(frozen=True)
class RegressionOptions:
    """What counts as right."""

    tolerance: float = option(0.5, "a prediction this near to its target is right", above=0)


def losses(output: Tensor, target: Tensor) -> Tensor:
    """The mean squared error of each sample.

    >>> import torch
    >>> losses(torch.tensor([[1.0, 3.0]]), torch.tensor([[1.0, 1.0]]))
    tensor([2.])
    """
    return (output - target.to(output)).square().mean(1)


def hits(output: Tensor, target: Tensor, *, tolerance: float) -> Tensor:
    """Whether all numbers are within the tolerance.

    >>> import torch
    >>> hits(torch.tensor([[1.0], [3.0]]), torch.tensor([[1.5], [1.0]]), tolerance=0.5)
    tensor([ True, False])
    """
    right: Tensor = ((output - target).abs() <= tolerance).all(1)
    return right


def targets(_x: Inputs, y: Tensor) -> Tensor:
    return in_columns(y)


def make(options: RegressionOptions) -> LearningTask:
    return LearningTask(
        name="regression",
        figure=f"share of samples within {options.tolerance:g} of the target",
        loss=EachSample(losses),
        hits=partial(hits, tolerance=options.tolerance),
        stack=stacked,
        targets=targets,
        outputs=width,
        same_width=True,
    )


REGRESSION_KIND = TaskKind(
    name="regression",
    summary="numbers for each sample; labels: one number or a row of them for each sample",
    options=RegressionOptions,
    make=make,
)
