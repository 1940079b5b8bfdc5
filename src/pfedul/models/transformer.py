"""A small transformer for sequences of tokens (A. Vaswani et al., 2017; norms before the layers).

The task decides how it ends: one answer for each sample, from the mean over positions, or one
for each position. When it learns the next token, no position sees a later one, and there is an
answer for each token of the vocabulary, whoever uses it. Positions are encoded by sines, so
sequences may have any length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pfedul.base.options import option
from pfedul.errors import PfedulError
from pfedul.models.base import ModelKind
from pfedul.tasks.base import LearningTask
from pfedul.tasks.classification import CLASSIFICATION


@dataclass(frozen=True)
class TransformerOptions:
    """The size of the transformer."""

    width: int = option(32, "numbers for each position", at_least=2)
    depth: int = option(2, "number of blocks", at_least=1)
    heads: int = option(2, "attention heads of a block", at_least=1)
    vocabulary: int = option(256, "number of different tokens, from 0 up", at_least=1)

    def __post_init__(self) -> None:
        if self.width % (2 * self.heads):
            raise ValueError("width must be a multiple of twice the number of heads")


class Block(nn.Module):
    """Attention and a perceptron, each added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed = nn.Linear(width, 3 * width)
        self.joined = nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        x = x + self.joined(self._attended(self.mixed(self.norm1(x)), hidden))
        changed: Tensor = x + self.narrow(nn.functional.gelu(self.wide(self.norm2(x))))
        return changed

    def _attended(self, mixed: Tensor, hidden: Tensor) -> Tensor:
        """Every position as a mean of those that are not hidden from it."""
        query, key, value = (self._by_head(part) for part in mixed.chunk(3, dim=-1))
        likeness = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        # Not infinite: a sample that is hidden altogether would give NaN.
        likeness = likeness.masked_fill(hidden, torch.finfo(likeness.dtype).min)
        return (likeness.softmax(-1) @ value).transpose(-2, -3).flatten(-2)

    def _by_head(self, part: Tensor) -> Tensor:
        """[samples, positions, width] -> [samples, heads, positions, width of a head]."""
        return part.view(*part.shape[:-1], self.heads, -1).transpose(-2, -3)


class Transformer(nn.Module):
    """Embeddings, blocks, and a linear head."""

    head_name = "head"

    def __init__(
        self, outputs: int, options: TransformerOptions, task: LearningTask = CLASSIFICATION
    ) -> None:
        super().__init__()
        self.by_position, self.causal = task.by_position, task.causal
        self.embedding = nn.Embedding(options.vocabulary, options.width)
        blocks = (Block(options.width, options.heads) for _ in range(options.depth))
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(options.width)
        self.head = nn.Linear(options.width, options.vocabulary if task.causal else outputs)

    def features(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        there = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        x = self._embedded(input_ids)
        x = x + positions(x.shape[1], x.shape[2]).to(x)
        hidden = self._hidden(there)
        for block in self.blocks:
            x = block(x, hidden)
        x = self.norm(x)
        return x if self.by_position else mean_of(x, there)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        answers: Tensor = self.head(self.features(input_ids, attention_mask))
        return answers

    def _embedded(self, tokens: Tensor) -> Tensor:
        try:
            x: Tensor = self.embedding(tokens)
        except IndexError:
            raise PfedulError(
                f"The tokens go beyond the {self.embedding.num_embeddings} that the transformer "
                "knows; give a larger vocabulary, --model transformer:vocabulary=NUMBER."
            ) from None
        return x

    def _hidden(self, there: Tensor) -> Tensor:
        """[samples, 1, positions or 1, positions]: what each position must not see."""
        hidden = (there == 0)[:, None, None, :]
        if not self.causal:
            return hidden
        length = there.shape[1]
        later = torch.ones(length, length, dtype=torch.bool, device=there.device).triu(1)
        return hidden | later

    def layer_groups(self) -> dict[str, list[str]]:
        """The embedding, attention and perceptron of each block, the last norm, and the head."""
        groups = {"embedding": ["embedding"]}
        for place in range(len(self.blocks)):
            block = f"blocks.{place}"
            for name, parts in _PARTS.items():
                groups[f"{block}.{name}"] = [f"{block}.{part}" for part in parts]
        return groups | {"norm": ["norm"], "head": ["head"]}


_PARTS = {"attention": ("norm1", "mixed", "joined"), "perceptron": ("norm2", "wide", "narrow")}


def positions(length: int, width: int) -> Tensor:
    """Sines and cosines of each position, [length, width].

    >>> positions(1, 4)
    tensor([[0., 0., 1., 1.]])
    """
    rates = 10_000 ** (-torch.arange(0, width, 2, device="cpu") / width)
    angles = torch.arange(length, device="cpu")[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def mean_of(x: Tensor, there: Tensor) -> Tensor:
    """The mean over the positions that are there.

    >>> mean_of(torch.tensor([[[1.0], [3.0]]]), torch.tensor([[1, 0]]))
    tensor([[1.]])
    """
    weights = there[..., None].to(x)
    return (x * weights).sum(1) / weights.sum(1).clamp(min=1)


def _build(
    _input_shape: Sequence[int], outputs: int, options: TransformerOptions, task: LearningTask
) -> nn.Module:
    return Transformer(outputs, options, task)


TRANSFORMER = ModelKind(
    name="transformer",
    summary="Small transformer for sequences of tokens, for any task.",
    options=TransformerOptions,
    build=_build,
    by_task=True,
)
