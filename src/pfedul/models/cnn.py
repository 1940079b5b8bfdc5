"""The small CNN of the federated literature.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS
2017: two 5x5 convolutions of 32 and 64 channels, each with 2x2 max pooling, then 512 units and the
head. It differs in one point: by default each convolution is followed by BatchNorm, so FedBN has
something to keep personal; `norm=none` is the CNN of the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from pfedul.base.options import option
from pfedul.models.base import ModelKind, image_shape

_POOLING = 4  # two poolings halve height and width twice
_HIDDEN_PER_WIDTH = 16  # 512 units for 32 channels, as in the paper


@dataclass(frozen=True)
class CNNOptions:
    """The size of the CNN and its normalisation."""

    width: int = option(
        32, "channels of the first convolution; the rest scales with it", at_least=1
    )
    norm: str = option("batch", "normalisation after each convolution", choices=("none", "batch"))


class SmallCNN(nn.Module):
    """Two convolutions, one fully connected layer, and a linear head."""

    head_name = "head"

    def __init__(self, shape: tuple[int, int, int], classes: int, options: CNNOptions) -> None:
        super().__init__()
        channels, height, width = shape
        pooled_pixels = (height // _POOLING) * (width // _POOLING)
        hidden = _HIDDEN_PER_WIDTH * options.width
        self.block1 = _block(channels, options.width, options.norm)
        self.block2 = _block(options.width, 2 * options.width, options.norm)
        self.hidden = nn.Sequential(nn.Linear(2 * options.width * pooled_pixels, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, classes)

    def features(self, x: Tensor) -> Tensor:
        features: Tensor = self.hidden(self.block2(self.block1(x)).flatten(1))
        return features

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits


def _block(inputs: int, outputs: int, norm: str) -> nn.Sequential:
    # Padding keeps the size, so images of 8 x 8 pixels survive both poolings.
    # BatchNorm subtracts whatever a bias adds: the convolution has one only without it.
    convolution = nn.Conv2d(inputs, outputs, kernel_size=5, padding=2, bias=norm == "none")
    normalise = nn.BatchNorm2d(outputs) if norm == "batch" else nn.Identity()
    return nn.Sequential(convolution, normalise, nn.ReLU(), nn.MaxPool2d(2))


def _build(input_shape: Sequence[int], classes: int, options: CNNOptions) -> nn.Module:
    return SmallCNN(image_shape("cnn", input_shape, smallest=_POOLING), classes, options)


CNN = ModelKind(
    name="cnn",
    summary="Small CNN of McMahan et al. (2017), with BatchNorm unless norm=none.",
    options=CNNOptions,
    build=_build,
)
