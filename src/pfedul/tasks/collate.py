"""From samples of a user's Dataset to inputs of a batch.

A sample is a pair (input, label); its input is a tensor, or a tuple or a dictionary of them.
Sequences of whole numbers may have different lengths: batches are filled up with zeros, and the
model gets `input_ids` and `attention_mask`, which is 1 where there is a token. So it is with
dictionaries that have `input_ids`, or an attention mask of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from pfedul.base.inputs import Inputs, joined
from pfedul.errors import PfedulError

TOKENS, MASK = "input_ids", "attention_mask"
"""The names that Hugging Face's models use."""


def stack_inputs(samples: Sequence[Any], filled: bool = False) -> Inputs:
    """One batch; with `filled` of sequences that may differ in length."""
    first = samples[0]
    if isinstance(first, Mapping):
        return _named({name: [sample[name] for sample in samples] for name in first})
    if isinstance(first, tuple):
        return tuple(_stacked(parts) for parts in zip(*samples, strict=True))
    return _named({TOKENS: samples}) if filled else _stacked(samples)


def _named(parts: dict[str, Sequence[Any]]) -> dict[str, Tensor]:
    """Inputs by name; sequences of tokens with their masks.

    >>> _named({"input_ids": [[5, 6], [7]]})["attention_mask"].tolist()
    [[1, 1], [1, 0]]
    """
    if MASK not in parts and TOKENS in parts and is_sequence(parts[TOKENS][0]):
        parts = {**parts, MASK: [_ones(len(sample)) for sample in parts[TOKENS]]}
    put = _filled if MASK in parts else _stacked
    return {name: put(values) for name, values in parts.items()}


def _ones(count: int) -> Tensor:
    return torch.ones(count, dtype=torch.int64, device="cpu")


def _filled(parts: Sequence[Any]) -> Tensor:
    filled: Tensor = joined([_tensor(part)[None] for part in parts])
    return filled


def is_sequence(sample: Any) -> bool:
    """Whether the input of a sample is a sequence of tokens, which can be filled up."""
    if isinstance(sample, Mapping | tuple):
        return False
    tensor = _tensor(sample)
    return tensor.ndim == 1 and not tensor.is_floating_point()


def _stacked(parts: Sequence[Any]) -> Tensor:
    tensors = [_tensor(part) for part in parts]
    shapes = {tuple(tensor.shape) for tensor in tensors}
    if len(shapes) > 1:
        one, other = sorted(shapes)[:2]
        raise PfedulError(
            f"Samples have inputs of shape {one} and {other}, which cannot be put in one batch; "
            "give the Dataset a method collate(samples) that returns (inputs, labels)."
        )
    return torch.stack(tensors)


def _tensor(part: Any) -> Tensor:
    return torch.as_tensor(part, device="cpu")
