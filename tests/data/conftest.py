"""Fixtures of the data tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from pfedul.data.datasets import cifar, femnist
from pfedul.data.datasets.base import Dataset, Owners, SearchPath
from pfedul.data.datasets.files import ENVIRONMENT_VARIABLE, find
from pfedul.data.samples import TensorSamples
from pfedul.errors import PfedulError

_NAMED = os.environ.get(ENVIRONMENT_VARIABLE)
_BESIDE = Path(__file__).parents[3] / "shared" / "data"
_WANTED = {
    "cifar10": cifar.CIFAR10,
    "cifar100": cifar.CIFAR100,
    "femnist": femnist.FEMNIST,
}


@pytest.fixture(autouse=True)
def _no_named_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a developer's environment names must not change what these tests see."""
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)


@pytest.fixture(scope="session")
def real_data() -> Callable[[str], Path]:
    """The folder of a data set's official files, whole or in part; skips if they are not there."""
    root = Path(_NAMED) if _NAMED else _BESIDE

    def root_of(name: str) -> Path:
        try:
            find(SearchPath((root,)), _WANTED[name])
        except PfedulError:
            pytest.skip(f"no real {name}: name its folder in {ENVIRONMENT_VARIABLE}")
        return root

    return root_of


@pytest.fixture
def toy() -> Dataset:
    """60 training and 30 test samples, 3 classes in turn, owned by a, b and c in thirds."""

    def part(count: int, first: int) -> TensorSamples:
        return TensorSamples(
            torch.arange(first, first + count, dtype=torch.float32).reshape(-1, 1),
            torch.arange(count) % 3,
        )

    names = np.array(["a", "b", "c"])
    return Dataset(
        part(60, 0), part(30, 100), 3, Owners(np.repeat(names, 20), np.repeat(names, 10))
    )
