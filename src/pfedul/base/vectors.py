"""Shared parameters as one vector: distances, angles and orthogonal projections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from pfedul.base.tensors import Tensors, wide

PIECE = 1 << 18
"""Entries of a row that are converted to double precision at a time."""

_RELATIVE_RANK = 1e-14
"""Eigenvalues of a Gram matrix of unit rows below this share of the largest count as zero."""


def flat(tensors: Tensors, names: Iterable[str]) -> Tensor:
    """These tensors end to end, in single precision or better.

    >>> flat({"w": torch.ones(2, 2), "b": torch.zeros(1)}, ["b", "w"])
    tensor([0., 1., 1., 1., 1.])
    """
    return torch.cat([wide(tensors[name]).reshape(-1) for name in names])


def unflat(vector: Tensor, like: Tensors, names: Iterable[str]) -> Tensors:
    """The inverse of `flat`, in the shapes and types of `like`."""
    parts, start = {}, 0
    for name in names:
        end = start + like[name].numel()
        parts[name] = vector[start:end].view(like[name].shape).to(like[name].dtype)
        start = end
    return parts


def square_distance(
    one: Mapping[str, Tensor], other: Mapping[str, Tensor], names: Iterable[str]
) -> float:
    """The squared Euclidean distance over these tensors, in double precision."""
    pairs = ((one[name].to(torch.float64), other[name].to(torch.float64)) for name in names)
    return sum(float((a - b).square().sum()) for a, b in pairs)


def cosine(one: Tensor, other: Tensor) -> float:
    """The cosine of the angle between two vectors, in double precision; 0 if one is zero."""
    a, b = one.to(torch.float64).reshape(-1), other.to(torch.float64).reshape(-1)
    length = float(a.norm() * b.norm())
    return float(a @ b) / length if length else 0.0


def orthogonal_part(vector: Tensor, rows: Tensor) -> Tensor:
    """`vector` without what lies in the span of `rows`: v - A'(AA')^+ A v, in double precision.

    Rows are converted to double precision piece by piece. The projection is done twice: the
    second removes what rounding left of the rows in the first result.
    """
    inverse = _inverse(gram(rows))
    rest = vector.to(torch.float64)
    for _ in range(2):
        factors = inverse @ _products(rows, rest)
        rest = rest - torch.cat([factors @ part for part in _stretches(rows)])
    return rest


def _inverse(products: Tensor) -> Tensor:
    """(AA')^+ of rows scaled to length 1, else a short one is lost in the rounding of others."""
    lengths = products.diagonal().sqrt()
    scale = torch.where(lengths > 0, 1 / lengths, 0.0)
    unit = scale[:, None] * products * scale
    inverse: Tensor = torch.linalg.pinv(unit, hermitian=True, rtol=_RELATIVE_RANK)
    return scale[:, None] * inverse * scale


def gram(rows: Tensor) -> Tensor:
    """A A' in double precision."""
    total = torch.zeros(len(rows), len(rows), dtype=torch.float64, device="cpu")
    for part in _stretches(rows):
        total += part @ part.T
    return total


def _products(rows: Tensor, vector: Tensor) -> Tensor:
    total = torch.zeros(len(rows), dtype=torch.float64, device="cpu")
    for part, piece in zip(_stretches(rows), torch.split(vector, PIECE), strict=True):
        total += part @ piece
    return total


def _stretches(rows: Tensor) -> Iterable[Tensor]:
    return (part.to(torch.float64) for part in torch.split(rows, PIECE, dim=1))
