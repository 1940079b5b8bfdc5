"""A multi-layer perceptron: the smallest model that still has a body and a head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from torch import Tensor, nn

from pfedul.base.options import option
from pfedul.models.base import ModelKind


@dataclass(frozen=True)
class MLPOptions:
    """The size of the perceptron and its normalisation."""

    hidden: int = option(64, "units in each hidden layer", at_least=1)
    # Without a hidden layer the head would be the whole model, and nothing left to share.
    depth: int = option(2, "number of hidden layers", at_least=1)
    norm: str = option("none", "normalisation in each hidden layer", choices=("none", "batch"))


class MultiLayerPerceptron(nn.Module):
    """Flatten, `depth` times linear + norm + ReLU, and a linear head."""

    head_name = "head"

    def __init__(self, inputs: int, classes: int, options: MLPOptions) -> None:
        super().__init__()
        sizes = [inputs] + [options.hidden] * options.depth
        self.body = nn.Sequential(*(_block(*pair, options.norm) for pair in pairwise(sizes)))
        self.head = nn.Linear(options.hidden, classes)

    def features(self, x: Tensor) -> Tensor:
        features: Tensor = self.body(x.flatten(1))
        return features

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits


def _block(inputs: int, outputs: int, norm: str) -> nn.Sequential:
    normalise = nn.BatchNorm1d(outputs) if norm == "batch" else nn.Identity()
    return nn.Sequential(nn.Linear(inputs, outputs), normalise, nn.ReLU())


def _build(input_shape: Sequence[int], classes: int, options: MLPOptions) -> nn.Module:
    return MultiLayerPerceptron(prod(input_shape), classes, options)


MLP = ModelKind(
    name="mlp",
    summary="Multi-layer perceptron on flattened inputs of any shape.",
    options=MLPOptions,
    build=_build,
)
