"""What a model is given, one tensor or several, and the tensor that it answers with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from pfedul.errors import PfedulError

Inputs = Tensor | tuple[Tensor, ...] | dict[str, Tensor]
"""A batch: the model is called with the tensor, with several by place, or with several by name."""


def answer(model: Callable[..., Any], x: Inputs) -> Tensor:
    """The model's output for a batch; of an output in parts, as Hugging Face's, the `logits`."""
    if isinstance(x, Tensor):
        return _tensor_in(model(x))
    return _tensor_in(model(*x) if isinstance(x, tuple) else model(**x))


def _tensor_in(output: Any) -> Tensor:
    if isinstance(output, Tensor):
        return output
    named = isinstance(output, Mapping)
    logits = output.get("logits") if named else getattr(output, "logits", None)
    if isinstance(logits, Tensor):
        return logits
    raise PfedulError(
        f"The model returns {type(output).__name__}; it must return one tensor, or a dictionary "
        "or an object with a tensor named logits."
    )


def single(x: Inputs) -> Tensor:
    """The one tensor, where several would not do."""
    if not isinstance(x, Tensor):
        raise PfedulError(f"This needs samples of one input, not several: {shape_of(x)}.")
    return x


def each(x: Inputs, change: Callable[[Tensor], Any]) -> Any:
    """The same inputs with every tensor changed.

    >>> each((torch.ones(1), torch.zeros(1)), lambda tensor: tensor.item())
    (1.0, 0.0)
    """
    if isinstance(x, Tensor):
        return change(x)
    if isinstance(x, tuple):
        return tuple(change(tensor) for tensor in x)
    return {name: change(tensor) for name, tensor in x.items()}


def named_tensors(x: Inputs) -> dict[str, Tensor]:
    """The tensors of inputs by name or by place; a single one has no name.

    >>> list(named_tensors((torch.ones(1), torch.zeros(1))))
    ['0', '1']
    """
    if isinstance(x, Tensor):
        return {"": x}
    return dict(x) if isinstance(x, dict) else {str(place): t for place, t in enumerate(x)}


def from_named(kind: type[Any], named: Mapping[str, Tensor]) -> Inputs:
    """The inverse of `named_tensors`; `kind` is the type of the inputs.

    >>> from_named(tuple, named_tensors((torch.ones(1),)))
    (tensor([1.]),)
    """
    if issubclass(kind, Tensor):
        return named[""]
    return tuple(named.values()) if issubclass(kind, tuple) else dict(named)


def count(x: Inputs) -> int:
    """How many samples there are; refused where the tensors disagree."""
    counts = {len(tensor) if tensor.ndim else 0 for tensor in named_tensors(x).values()}
    if len(counts) != 1:
        raise PfedulError("Several inputs must have the same number of samples; make them alike.")
    return counts.pop()


def shape_of(x: Inputs) -> str:
    """The shape of one sample, or the shapes of its inputs, in words.

    >>> shape_of(torch.zeros(2, 3)), shape_of({"a": torch.zeros(2, 3), "b": torch.zeros(2)})
    ('(3,)', 'a (3,), b ()')
    """
    shapes = {name: tuple(tensor.shape[1:]) for name, tensor in named_tensors(x).items()}
    return ", ".join(f"{name} {shape}".strip() for name, shape in shapes.items())


def joined(parts: Sequence[Inputs], filler: float = 0) -> Any:
    """Inputs of several batches in one; shorter ones are filled up at their ends.

    >>> joined([torch.ones(1, 1), torch.ones(1, 2)]).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    named = [named_tensors(part) for part in parts]
    if any(one.keys() != named[0].keys() for one in named):
        raise PfedulError("All clients must have the same inputs; make them alike.")
    tensors = {name: _joined([one[name] for one in named], filler) for name in named[0]}
    return from_named(type(parts[0]), tensors)


def _joined(parts: Sequence[Tensor], filler: float) -> Tensor:
    if len({part.shape[1:] for part in parts}) == 1:
        return torch.cat(list(parts))
    widest = [max(sizes) for sizes in zip(*(part.shape[1:] for part in parts), strict=True)]
    return torch.cat([_filled(part, widest, filler) for part in parts])


def _filled(part: Tensor, sizes: Sequence[int], filler: float) -> Tensor:
    """`part` with these sizes after the first axis."""
    missing = [size - have for size, have in zip(sizes, part.shape[1:], strict=True)]
    return F.pad(part, [n for last in reversed(missing) for n in (0, last)], value=filler)
