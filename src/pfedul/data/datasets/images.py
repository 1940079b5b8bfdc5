"""Pixels to network inputs, with constants that were published for each data set.

The constants are never computed from the loaded data: they would carry a trace
of every client's samples, also of a client that asks to be forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BYTE_RANGE = 255.0


def images_from_bytes(
    pixels: NDArray[np.uint8], mean: Sequence[float], std: Sequence[float]
) -> Tensor:
    """Images [n, channels, height, width] of 0..255, centred and scaled per channel."""
    images = pixels.astype(np.float32)
    images /= np.float32(BYTE_RANGE)
    return normalised(images, mean, std)


def normalised(images: NDArray[np.float32], mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Images [n, channels, height, width] of 0..1, centred and scaled per channel."""
    shift = np.asarray(mean, dtype=np.float32).reshape(1, -1, 1, 1)
    scale = np.asarray(std, dtype=np.float32).reshape(1, -1, 1, 1)
    # In place from here on: a full set of colour images takes most of a gigabyte.
    inputs = images - shift
    inputs /= scale
    return torch.from_numpy(inputs)
