"""CT: transpose every convolution kernel, then let the remaining clients train.

The fifth of the NeurIPS 2023 unlearning challenge, as its code is kept in xcadet/deepunlearn
(KGLTop5): the two spatial axes of every two-dimensional convolution change places, everything
else stays, and three epochs follow with a rate that falls along a cosine. There the rate falls
from epoch to epoch, here from batch to batch.

A kernel that is not square would have another shape and is left as it is; one of size 1 does
not change. Linear layers are left alone, as in that code. Nothing here is particular to the
targets.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from pfedul.base.options import option
from pfedul.base.tensors import Tensors
from pfedul.unlearn.base import About, Does, Method, Result
from pfedul.unlearn.context import Context
from pfedul.unlearn.training import TRAIN_SHARED, fine_tuned


@dataclass(frozen=True)
class TransposeOptions:
    """`rounds` of `epochs` after the transposition."""

    rounds: int = option(3, "Rounds over the remaining clients after it.", at_least=1)
    epochs: int = option(1, "Local epochs of a round.", at_least=1)


def unlearn(ctx: Context, options: TransposeOptions) -> Result:
    names = square_kernels(ctx.model(), ctx.trained)
    start = ctx.tied(transposed(ctx.shared, names))
    shared = fine_tuned(ctx, start, options.rounds, options.epochs, cosine=True)
    return Result(shared, notes=(f"CT transposed the kernels of {len(names)} layers",))


def transposed(shared: Tensors, names: tuple[str, ...]) -> Tensors:
    """These kernels with rows and columns exchanged. Done twice, it is as if nothing was done."""
    return {
        name: tensor.transpose(2, 3).contiguous() if name in names else tensor
        for name, tensor in shared.items()
    }


def square_kernels(model: nn.Module, trained: tuple[str, ...]) -> tuple[str, ...]:
    """The weights of two-dimensional convolutions whose transposed has the same shape."""
    layers = [(path, m) for path, m in model.named_modules() if isinstance(m, nn.Conv2d)]
    named = {f"{path}.weight" if path else "weight": layer for path, layer in layers}
    square = {n for n, layer in named.items() if len({*layer.kernel_size}) == 1}
    return tuple(name for name in trained if name in square)


CT = Method(
    name="ct",
    summary="transpose every convolution kernel, then rounds on the others",
    unlearn=unlearn,
    about=About(
        paper="NeurIPS 2023 unlearning challenge, fifth place",
        who="all remaining clients",
        rounds="3 (rounds)",
        avoids="without convolutions nothing is transposed: the outcome says how many were",
        control=True,
    ),
    options=TransposeOptions,
    does=Does(recalibrates=True),
    client=TRAIN_SHARED,
)
