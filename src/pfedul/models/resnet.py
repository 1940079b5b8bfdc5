"""ResNet-18, shape for shape and name for name as torchvision's, so its state dicts load.

He et al., "Deep Residual Learning for Image Recognition", CVPR 2016. It
differs by options only: `stem=cifar` is the stem for small images that is
common on CIFAR (one 3x3 convolution, no pooling), `width` scales all channels,
and `norm=group` puts GroupNorm (Wu and He, ECCV 2018) under the same names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from pfedul.base.options import option
from pfedul.base.registry import make_options
from pfedul.models.base import ModelKind, check_classes, image_shape


@dataclass(frozen=True)
class ResNet18Options:
    """The stem, the size of the network and its normalisation."""

    stem: str = option(
        "cifar", "first convolution, for small or large images", choices=("cifar", "imagenet")
    )
    width: int = option(64, "channels of the stem and of the first stage", at_least=1)
    norm: str = option("batch", "normalisation", choices=("batch", "group"))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: str) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = normalisation(norm, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = normalisation(norm, outputs)
        self.relu = nn.ReLU()
        same_shape = stride == 1 and inputs == outputs
        self.downsample = None if same_shape else _downsample(inputs, outputs, stride, norm)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        sum_of_both: Tensor = self.relu(self.bn2(self.conv2(out)) + shortcut)
        return sum_of_both


class ResNet18(nn.Module):
    """A stem, four stages of two blocks, average pooling, and the head `fc`."""

    head_name = "fc"

    def __init__(self, channels: int, classes: int, options: ResNet18Options) -> None:
        super().__init__()
        width, norm = options.width, options.norm
        self.conv1, self.maxpool = _stem(channels, options)
        self.bn1 = normalisation(norm, width)
        self.relu = nn.ReLU()
        self.layer1 = _stage(width, width, 1, norm)
        self.layer2 = _stage(width, 2 * width, 2, norm)
        self.layer3 = _stage(2 * width, 4 * width, 2, norm)
        self.layer4 = _stage(4 * width, 8 * width, 2, norm)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(8 * width, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def features(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        features: Tensor = self.avgpool(x).flatten(1)
        return features

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.features(x))
        return logits

    def layer_groups(self) -> dict[str, list[str]]:
        """Each convolution with its norm, then the head: 18 layers, 17 without the head."""
        groups = {"conv1": ["conv1", "bn1"]}
        for name, module in self.named_modules():
            if isinstance(module, BasicBlock):
                # The shortcut belongs to the first convolution: both read the same input.
                shortcut = [] if module.downsample is None else [f"{name}.downsample"]
                groups[f"{name}.conv1"] = [f"{name}.conv1", f"{name}.bn1", *shortcut]
                groups[f"{name}.conv2"] = [f"{name}.conv2", f"{name}.bn2"]
        return groups | {"fc": ["fc"]}


def resnet18(
    classes: int = 10, channels: int = 3, stem: str = "cifar", width: int = 64, norm: str = "batch"
) -> ResNet18:
    """ResNet-18 for images of any size; `stem="imagenet"` with 1000 classes is torchvision's."""
    check_classes(classes)
    options = make_options("model 'resnet18'", ResNet18Options, stem=stem, width=width, norm=norm)
    return ResNet18(channels, classes, options)


def normalisation(norm: str, channels: int) -> nn.Module:
    """BatchNorm, or GroupNorm with the most groups that divide the channels, 32 at most.

    A group has two channels or more: a group of one channel on a map of one
    pixel, as in the last stage on small images, would always be zero.

    >>> [normalisation("group", channels).num_groups for channels in (16, 64, 512)]
    [8, 32, 32]
    """
    if norm == "batch":
        return nn.BatchNorm2d(channels)
    most = max(1, min(32, channels // 2))
    groups = next(count for count in range(most, 0, -1) if channels % count == 0)
    return nn.GroupNorm(groups, channels)


def _stem(channels: int, options: ResNet18Options) -> tuple[nn.Conv2d, nn.Module]:
    if options.stem == "cifar":
        return nn.Conv2d(channels, options.width, 3, padding=1, bias=False), nn.Identity()
    convolution = nn.Conv2d(channels, options.width, 7, stride=2, padding=3, bias=False)
    return convolution, nn.MaxPool2d(3, stride=2, padding=1)


def _stage(inputs: int, outputs: int, stride: int, norm: str) -> nn.Sequential:
    first = BasicBlock(inputs, outputs, stride, norm)
    return nn.Sequential(first, BasicBlock(outputs, outputs, 1, norm))


def _downsample(inputs: int, outputs: int, stride: int, norm: str) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
    return nn.Sequential(convolution, normalisation(norm, outputs))


def _build(input_shape: Sequence[int], classes: int, options: ResNet18Options) -> nn.Module:
    channels, _, _ = image_shape("resnet18", input_shape)
    return ResNet18(channels, classes, options)


RESNET18 = ModelKind(
    name="resnet18",
    summary="ResNet-18 of He et al. (2016), for small images unless stem=imagenet.",
    options=ResNet18Options,
    build=_build,
)
