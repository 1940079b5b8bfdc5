"""Augmentation: every image of a batch is changed at random before it is trained on.

Draws come from the task's own stream, on the CPU, so they are the same on every device.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from pfedul.base.inputs import Inputs

_IMAGES = 4
"""Axes of a batch of images: sample, channel, row, column."""


def flip(x: Tensor) -> Tensor:
    """Half of the images mirrored, left to right."""
    chosen = torch.rand(len(x), device="cpu") < 0.5
    return torch.where(chosen.to(x.device)[:, None, None, None], x.flip(3), x)


def crop(x: Tensor) -> Tensor:
    """Each image moved by up to an eighth of its size, with zeros where it came from."""
    _, _, height, width = x.shape
    down, right = max(1, height // 8), max(1, width // 8)
    padded = F.pad(x, (right, right, down, down))
    rows = _window(len(x), height, 2 * down).to(x.device)
    columns = _window(len(x), width, 2 * right).to(x.device)
    number = torch.arange(len(x), device=x.device)
    # Indices at both ends put the channels last.
    moved = padded[number[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    return moved.permute(0, 3, 1, 2).contiguous()


def _window(count: int, length: int, room: int) -> Tensor:
    """[count, length]: consecutive places from a random start."""
    starts = torch.randint(room + 1, (count, 1), device="cpu")
    return starts + torch.arange(length, device="cpu")


AUGMENTATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "flip": flip,
    "crop": crop,
    "flip+crop": lambda x: crop(flip(x)),
}


def augmented(x: Inputs, name: str) -> Inputs:
    """The batch, changed as `name` says; inputs that are not images have no augmentation."""
    return AUGMENTATIONS[name](x) if isinstance(x, Tensor) else x


def fits(x: Inputs) -> bool:
    """Whether a batch is of images, [samples, channels, height, width]."""
    return isinstance(x, Tensor) and x.ndim == _IMAGES
