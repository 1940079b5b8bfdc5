"""What a personalisation is, and what it is given to work on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pfedul.tasks import DEFAULT_TASK, task_of

if TYPE_CHECKING:
    from torch import nn

    from pfedul.base.tensors import Tensors
    from pfedul.data.samples import Samples
    from pfedul.split import Split
    from pfedul.tasks.base import LearningTask


@dataclass(frozen=True)
class LocalTraining:
    """How a client trains; the optimiser begins anew in every round.

    `steps` ends each phase of the training after so many batches, however many epochs are left.
    `cosine`: the rate falls to zero along a cosine over all batches of a phase, or of `parts`
    equal phases of which this is number `part`. `task`: what is learned.
    """

    epochs: int = 5
    batch_size: int = 32
    lr: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 0.0
    steps: int | None = None
    cosine: bool = False
    part: int = 1
    parts: int = 1
    optimizer: str = "sgd"
    augment: str = "none"
    task: LearningTask = field(default_factory=partial(task_of, DEFAULT_TASK))


def cosine(done: int, whole: int) -> float:
    """The share of the rate that is left when so many of all steps are done.

    >>> [round(cosine(done, 4), 2) for done in range(5)]
    [1.0, 0.85, 0.5, 0.15, 0.0]
    """
    return (1 + math.cos(math.pi * done / whole)) / 2


@dataclass(frozen=True)
class Job:
    """One client's local work: everything it may read. The model is scratch space."""

    client: str
    model: nn.Module
    split: Split
    head: str | None
    shared: Tensors
    personal: Tensors
    samples: Samples
    training: LocalTraining
    options: Any


@dataclass(frozen=True)
class Fitted:
    """The client's tensors after local training, and the mean loss on the way."""

    shared: Tensors
    personal: Tensors
    loss: float


@dataclass(frozen=True)
class Recalibration:
    """How a client recalibrates.

    `epochs`: E_r of the paper, at the constant rate of training. None is thorough: until the
    personal part has converged, as each personalisation sees fit (`thorough`). `affine`: FedBN
    also trains the weights and biases of its normalisation.
    """

    epochs: int | None = 2
    affine: bool = False

    def training(self, usual: LocalTraining, thorough: LocalTraining) -> LocalTraining:
        """How the personal part is trained."""
        return thorough if self.epochs is None else replace(usual, epochs=self.epochs)


@dataclass(frozen=True)
class Personalization:
    """A way to divide a model between the federation and its clients, and to train it.

    The five descriptions make the table of `pfedul personalizations` and of the docs. `recalibrate`
    gives the personal tensors refitted to shared tensors that changed; the model holds both parts
    when it is called. `needs_head` says whether the split is made at the model's head, and
    `shares_head` that clients use the federation's, which recalibration cannot refit. `prepare`
    takes the options and a new model, and adds to it, in place, what its author need not know of;
    done twice it adds nothing.
    """

    name: str
    summary: str
    shared: str
    personal: str
    local_training: str
    recalibration: str
    paper: str
    options: type[Any]
    split: Callable[..., Split]
    fit: Callable[[Job], Fitted]
    recalibrate: Callable[[Job, Recalibration], Tensors]
    needs_head: bool = False
    shares_head: bool = False
    prepare: Callable[[Any, nn.Module], None] | None = None
