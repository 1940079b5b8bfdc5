"""What the registry knows of a model, and the checks that all models share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pfedul.errors import PfedulError

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class ModelKind:
    """One entry of the model registry; `build` takes input shape, classes and options.

    `by_task`: the model depends on the task, which `build` takes as well.
    """

    name: str
    summary: str
    options: type[Any]
    build: Callable[..., nn.Module]
    by_task: bool = False


def check_classes(classes: int) -> None:
    if classes < 1:
        raise PfedulError(f"A model needs at least one class, not {classes}; check the labels.")


def image_shape(model: str, input_shape: Sequence[int], smallest: int = 1) -> tuple[int, int, int]:
    """The shape as (channels, height, width), or an error that says what the model can take."""
    if len(input_shape) != 3:
        raise PfedulError(
            f"The model '{model}' takes images of shape [channels, height, width], "
            f"not {list(input_shape)}; use the model 'mlp' for other inputs, or "
            "'transformer' for tokens."
        )
    channels, height, width = input_shape
    if min(height, width) < smallest:
        raise PfedulError(
            f"The model '{model}' needs images of at least {smallest} x {smallest} pixels, "
            f"not {height} x {width}; use the model 'mlp' for smaller ones."
        )
    return channels, height, width
