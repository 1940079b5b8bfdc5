"""What is learned: a loss and a figure for each sample, and how samples become a batch.

All else follows from these. Clients minimise the mean of the losses. The accuracy of a
client is the mean of the hits, so its ratio after and before a removal has the same meaning for
every task. Attacks read logits of classes. For other tasks they are given two columns, [s, 0],
and the label 0: s is chosen so that the cross-entropy of the row is the sample's loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from pfedul.base.inputs import Inputs
from pfedul.errors import PfedulError

_LEAST = 1e-12
"""A loss of zero has no finite score."""


class LossFunction(Protocol):
    """As torch's own functions; with the reduction 'none' one number for each sample."""

    def __call__(self, output: Tensor, target: Tensor, /, *, reduction: str = "mean") -> Tensor: ...


@dataclass(frozen=True)
class EachSample:
    """A loss made of one number, from zero up, for each sample."""

    losses: Callable[[Tensor, Tensor], Tensor]

    def __call__(self, output: Tensor, target: Tensor, /, *, reduction: str = "mean") -> Tensor:
        losses = self.losses(output, target)
        if reduction == "none":
            return losses
        return losses.sum() if reduction == "sum" else losses.mean()


@dataclass(frozen=True)
class LearningTask:
    """All that depends on what is learned.

    `hits(output, target)`: for each sample from 0 (wrong) to 1 (right), and `figure` calls their
    mean by name. `stack` makes one tensor of the labels of a Dataset's samples, `targets(x, y)`
    what `loss` takes from inputs and labels, or raises ValueError with a clause that goes on after
    "The labels". `outputs(target)`: how many numbers the model must give; with `same_width` all
    clients must agree on it. `by_position`: a sample has them for each of its positions, and with
    `causal` a position must not see later ones.
    `classes`: outputs are logits of classes, and attacks read them as they are.
    """

    name: str
    figure: str
    loss: LossFunction
    hits: Callable[[Tensor, Tensor], Tensor]
    stack: Callable[[Sequence[Any]], Tensor]
    targets: Callable[[Inputs, Tensor], Tensor]
    outputs: Callable[[Tensor], int]
    same_width: bool = False
    by_position: bool = False
    causal: bool = False
    classes: bool = False

    def checked(self, x: Inputs, y: Tensor, owner: str) -> Tensor:
        """What the loss takes, from inputs and labels; one sentence where they do not fit."""
        try:
            return self.targets(x, y)
        except ValueError as error:
            raise PfedulError(f"The labels of {owner} {error}.") from None

    def answers(self, output: Tensor, target: Tensor) -> Tensor:
        """What attacks read: logits, one row for each sample."""
        if self.classes:
            return output
        scores = score(self.loss(output, target, reduction="none").double())
        return torch.stack([scores, torch.zeros_like(scores)], dim=1)

    def labels(self, target: Tensor) -> Tensor:
        """The label of each of these rows."""
        return target if self.classes else torch.zeros(len(target), dtype=torch.int64, device="cpu")

    def check_output(self, output: Tensor, target: Tensor, outputs: int) -> None:
        """Refuse, in one sentence, a model whose output cannot be compared with these labels."""
        places = list(target.shape[: 1 + self.by_position])
        shape, wanted = list(output.shape), [*places, outputs]
        enough = shape[:-1] == places and shape[-1] >= outputs
        if shape == wanted or (enough and not self.same_width):
            return
        what = f"the task {self.name}, which needs {tuple(wanted[1:])}"
        if self.classes:
            what = f"the {outputs} classes of the data; it must give one number for each class"
        raise PfedulError(f"The model's output of shape {tuple(shape[1:])} does not fit {what}.")


@dataclass(frozen=True)
class TaskKind:
    """An entry of `TASKS`; `make` gives the task for its options."""

    name: str
    summary: str
    options: type[Any]
    make: Callable[[Any], LearningTask]


def score(losses: Tensor) -> Tensor:
    """The logit of exp(-loss): -log(exp(loss) - 1), which falls as the loss rises.

    >>> s = score(torch.tensor([0.5, 2.0]))
    >>> torch.nn.functional.softplus(-s)  # the cross-entropy of [s, 0] and the label 0
    tensor([0.5000, 2.0000])
    """
    losses = losses.clamp(min=_LEAST)
    return -losses - torch.log(-torch.expm1(-losses))


def stacked(labels: Sequence[Any]) -> Tensor:
    """Labels of one shape in one tensor."""
    return torch.stack([torch.as_tensor(label, device="cpu") for label in labels])


def in_columns(y: Tensor) -> Tensor:
    """Finite numbers [samples, columns]; a list of numbers is one column."""
    if y.ndim not in (1, 2) or y.dtype == torch.bool or y.is_complex():
        raise ValueError("must be numbers, one row for each sample")
    table = y if y.is_floating_point() else y.float()
    if not bool(torch.isfinite(table).all()):
        raise ValueError("contain NaN or infinite values; clean them before training")
    return (table if table.ndim == 2 else table[:, None]).contiguous()


def width(target: Tensor) -> int:
    """The number of columns."""
    return target.shape[1]
