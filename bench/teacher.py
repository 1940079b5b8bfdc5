"""How large are the teacher's outputs that distilled repair compares, if a client kept them?

    python bench/teacher.py

For each model: numbers of all matched outputs of one sample, and how many times a sample's own size
that is (both in single precision). Needs no data.
"""

from __future__ import annotations

from contextlib import closing
from math import prod

import torch

from pfedul.models import build_model
from pfedul.split import head_of
from pfedul.unlearn.distil import Watched

COLOUR, DIGIT = (3, 32, 32), (1, 8, 8)
CASES = {
    "resnet18:width=16,stem=imagenet": COLOUR,
    "resnet18:stem=imagenet": COLOUR,
    "resnet18:width=16,stem=cifar": COLOUR,
    "cnn": COLOUR,
    "mlp": DIGIT,
}


def outputs(spec: str, shape: tuple[int, ...]) -> int:
    """Numbers that the outputs of all layers and the features of one sample have."""
    model = build_model(spec, shape, 10).eval()
    with torch.no_grad(), closing(Watched(model, head_of(model))) as teacher:
        teacher(torch.zeros(1, *shape))
        return sum(one.numel() for one in (*teacher.layers.values(), teacher.features))


def main() -> None:
    print(
        "| model | numbers of a sample | of the teacher's outputs | times |\n|---|---:|---:|---:|"
    )
    for spec, shape in CASES.items():
        kept, own = outputs(spec, shape), prod(shape)
        print(f"| {spec} | {own:,} | {kept:,} | {kept / own:.1f} |")


if __name__ == "__main__":
    main()
