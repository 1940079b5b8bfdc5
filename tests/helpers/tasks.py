"""Small federations of every task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pfedul import Federation

CLIENTS, TRAIN, TEST, LENGTH, WORDS = 4, 24, 12, 5, 7
QUICK: dict[str, Any] = {
    "personalization": "fedper",
    "rounds": 2,
    "local_epochs": 1,
    "batch_size": 8,
    "engine": "inline",
    "random_split": True,
}
TRANSFORMER = "transformer:width=8,depth=1,vocabulary=16"


class TwoInputs(nn.Module):
    """Two inputs by name, and an output with `logits` as Hugging Face's models have it."""

    head_name = "head"

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.body = nn.Linear(3, 6)
        self.head = nn.Linear(6, outputs)

    def forward(self, left: Tensor, right: Tensor) -> dict[str, Tensor]:
        body = self.body(torch.cat([left, right], dim=1)).relu()
        return {"hidden": body, "logits": self.head(body)}


def tokens(client: int, part: int) -> list[Tensor]:
    """Sequences of different lengths, in which each word follows from the one before it."""
    stream = torch.Generator().manual_seed(2 * client + part)
    count = TEST if part else TRAIN
    firsts = torch.randint(WORDS, (count,), generator=stream)
    lengths = torch.randint(3, LENGTH + 1, (count,), generator=stream)
    return [
        1 + (first + (client + 1) * torch.arange(length)) % WORDS
        for first, length in zip(firsts, lengths, strict=True)
    ]


def vectors(client: int, part: int) -> dict[str, Tensor]:
    stream = torch.Generator().manual_seed(2 * client + part)
    x = torch.randn(TEST if part else TRAIN, 3, generator=stream) + client / 2
    return {"left": x[:, :1], "right": x[:, 1:]}


def multi_labels(client: int, part: int) -> tuple[Any, Any]:
    x = vectors(client, part)
    return x, torch.stack([x["left"][:, 0] > 0, x["right"].sum(1) > 0], dim=1).float()


def numbers(client: int, part: int) -> tuple[Any, Any]:
    x = vectors(client, part)
    return x, x["left"][:, 0] - x["right"][:, 1] / 2


def classes(client: int, part: int) -> Any:
    return [(row, int(row[0]) % 3) for row in tokens(client, part)]


def parts_of_speech(client: int, part: int) -> Any:
    """Whether a word is even; nothing is asked of the first."""
    return [(row, torch.cat([torch.tensor([-100]), row[1:] % 2])) for row in tokens(client, part)]


def text(client: int, part: int) -> Any:
    return [(row, None) for row in tokens(client, part)]


SOURCES: dict[str, tuple[Any, Any]] = {
    "classification": (classes, TRANSFORMER),
    "multi-label": (multi_labels, lambda: TwoInputs(2)),
    "regression": (numbers, lambda: TwoInputs(1)),
    "token-classification": (parts_of_speech, TRANSFORMER),
    "language-modelling": (text, TRANSFORMER),
}
"""Task -> what makes a part of a client's data, and a model."""


def data_of(task: str) -> dict[str, Any]:
    source, _ = SOURCES[task]
    return {f"c{client}": (source(client, 0), source(client, 1)) for client in range(CLIENTS)}


def federation_of(task: str, run: Path, **settings: Any) -> Federation:
    """A federation of four clients, not yet trained."""
    chosen = {"data": data_of(task), "model": SOURCES[task][1], "task": task, **QUICK, **settings}
    return Federation.create(run, **chosen)
