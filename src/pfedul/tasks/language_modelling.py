"""The next token at each position: targets are the inputs, seen one position later.

Labels are used only if they are sequences as long as the inputs, such as a prompt
labelled -100; a class for each sample, as data sets have it, is put aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pfedul.base.inputs import Inputs, named_tensors
from pfedul.base.registry import NoOptions
from pfedul.tasks.base import EachSample, LearningTask, TaskKind
from pfedul.tasks.collate import MASK, TOKENS
from pfedul.tasks.sequences import IGNORED, checked, outputs
from pfedul.tasks.sequences import hits as position_hits
from pfedul.tasks.sequences import losses as position_losses
from pfedul.tasks.sequences import stack as stack_sequences


def losses(output: Tensor, target: Tensor) -> Tensor:
    """What each position says of the next token."""
    return position_losses(output[:, :-1], target[:, 1:])


def hits(output: Tensor, target: Tensor) -> Tensor:
    """The share of next tokens that are right, for each sample.

    >>> logits = torch.tensor([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> hits(logits, torch.tensor([[0, 1, 1]]))
    tensor([0.5000])
    """
    return position_hits(output[:, :-1], target[:, 1:])


def stack(labels: Sequence[Any]) -> Tensor:
    """Sequences, or nothing that is used."""
    if any(label is None or torch.as_tensor(label).ndim != 1 for label in labels):
        return torch.zeros(len(labels), dtype=torch.int64, device="cpu")
    return stack_sequences(labels)


def targets(x: Inputs, y: Tensor) -> Tensor:
    wanted = checked(y if y.ndim == 2 else _from_inputs(x))
    if bool((wanted[:, 1:] == IGNORED).all(1).any()):
        raise ValueError("are too few: every sequence needs two tokens (task language-modelling)")
    return wanted


def _from_inputs(x: Inputs) -> Tensor:
    """The tokens, without the filled positions."""
    named = named_tensors(x)
    tokens = named.get(TOKENS, next(iter(named.values())))
    if tokens.ndim != 2 or tokens.is_floating_point():
        raise ValueError(
            "are made of the inputs, which must be sequences of tokens, whole numbers, for the "
            "task language-modelling"
        )
    if MASK not in named:
        return tokens
    return torch.where(named[MASK].bool(), tokens, IGNORED)


LANGUAGE_MODELLING = LearningTask(
    name="language-modelling",
    figure="share of next tokens that are right, averaged over samples",
    loss=EachSample(losses),
    hits=hits,
    stack=stack,
    targets=targets,
    outputs=outputs,
    by_position=True,
    causal=True,
)

LANGUAGE_MODELLING_KIND = TaskKind(
    name="language-modelling",
    summary="the next token of a sequence; no labels: targets are the inputs",
    options=NoOptions,
    make=lambda _options: LANGUAGE_MODELLING,
)
