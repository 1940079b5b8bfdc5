"""A module of a user's own, in the folder in which the user calls pfedul."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODULE = """
from pathlib import Path

import torch
from torch import nn

Path(__file__).with_name("imported").touch()

NOTHING = None
READY = nn.Linear(4, 3)


def clients(count: int = 3, shift=1.0):
    data = {}
    for number in range(count):
        source = torch.Generator().manual_seed(number)
        y = torch.arange(36) % 3
        x = 3 * torch.eye(3, 4)[y] + torch.randn(36, 4, generator=source) + shift * number
        data[f"c{number}"] = (x[:24], y[:24]), (x[24:], y[24:])
    return data


def network(hidden: int, deep: bool = False, *, norm: "str | None" = None):
    middle = [nn.Linear(hidden, hidden)] if deep else []
    norms = [nn.LayerNorm(hidden)] if norm == "layer" else []
    return nn.Sequential(nn.Linear(4, hidden), *norms, nn.ReLU(), *middle, nn.Linear(hidden, 3))


class Small(nn.Sequential):
    def __init__(self, hidden=5):
        super().__init__(nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, 3))


def untyped(hidden, deep=False, **options):
    return nn.Sequential(nn.Linear(4, hidden, **options), nn.ReLU(), nn.Linear(hidden, 3))


def options_alone(**options):
    return options


def annotated(width: "how wide it is" = 3, sizes: [int] = None, kind: "int | None" = None):
    return width, sizes, kind


def failing():
    raise KeyError("no weights")


def numbers():
    return [1, 2]


def nothing():
    pass


def leaving():
    raise SystemExit("no data")


def not_a_pair():
    return {"c0": 1}
"""

CODE = ("--data", "wards:clients", "--model", "wards:network:hidden=6,deep")
QUICK = ("--rounds", "1", "--local-epochs", "1", "--lr", "0.1", "--engine", "inline")


def write_module(folder: Path, name: str = "wards", text: str = MODULE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.py"
    file.write_text(text)
    return file


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """As a shell in this folder would: what is imported meanwhile is imported by nobody else."""
    modules, path, before = set(sys.modules), [*sys.path], os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if name.split(".")[0] in {
                "wards",
                "hospitals",
                "reviews",
                "runs",
                "payload",
                "linked",
                "broken",
            }:
                del sys.modules[name]
