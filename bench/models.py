"""The models of the speed bench: one definition for every contender."""

from __future__ import annotations

from torch import nn

from pfedul.models import build_model

SPECS = {"resnet18": "resnet18:stem=imagenet", "cnn": "cnn"}


def build(name: str) -> nn.Module:
    """ResNet-18 with the ImageNet stem, or the small CNN, for 32 x 32 colour images, 10 classes."""
    return build_model(SPECS[name], (3, 32, 32), 10)
