"""The user's own clients, given in Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from pfedul.data.checks import check_ids, classes_up_to
from pfedul.data.samples import (
    ClientData,
    DatasetSamples,
    FederatedData,
    Samples,
    TensorSamples,
    as_samples,
)
from pfedul.errors import PfedulError


def own_clients(mapping: Mapping[str, tuple[Any, Any]]) -> FederatedData:
    """Data from `{client: (train, test)}`, each part (inputs, labels) or a map-style Dataset.

    Classes are numbered from 0; there are as many as the largest label says. Inputs that are
    bytes are images, divided by 255, or tokens: see `tensor_samples`.
    """
    if not mapping:
        raise PfedulError("There are no clients; give at least one as {name: (train, test)}.")
    check_ids(mapping)
    clients = {name: _client(name, parts) for name, parts in mapping.items()}
    parts = {f"{name}, {part}": s for name, client in clients.items() for part, s in _parts(client)}
    _check_same_shape(parts)
    largest = max(_largest_label(samples, owner) for owner, samples in parts.items())
    return FederatedData(clients, classes_up_to(largest))


def _client(name: str, parts: Any) -> ClientData:
    if not isinstance(parts, tuple | list) or len(parts) != 2:
        raise PfedulError(f"The data of client '{name}' must be a pair (train, test).")
    train, test = (
        as_samples(given, f"client '{name}' ({part})")
        for given, part in zip(parts, ("train", "test"), strict=True)
    )
    if not len(train) or not len(test):
        raise PfedulError(
            f"The client '{name}' has an empty train or test part; fill or remove it."
        )
    return ClientData(train, test)


def _parts(client: ClientData) -> tuple[tuple[str, Samples], ...]:
    return ("train", client.train), ("test", client.test)


def _check_same_shape(parts: dict[str, Samples]) -> None:
    """Only of what lies in memory: datasets are read sample by sample, later."""
    first: tuple[str, torch.Size] | None = None
    for owner, samples in parts.items():
        if isinstance(samples, TensorSamples):
            first = first or (owner, samples.x.shape[1:])
            if samples.x.shape[1:] != first[1]:
                raise PfedulError(
                    f"Inputs must have one shape, but they are {tuple(samples.x.shape[1:])} in "
                    f"{owner} and {tuple(first[1])} in {first[0]}; make them alike."
                )


def _largest_label(samples: Samples, owner: str) -> int:
    if isinstance(samples, TensorSamples):
        return int(samples.y.max())
    assert isinstance(samples, DatasetSamples)
    try:
        with torch.random.fork_rng(devices=[]):  # reading leaves the caller's stream as it was
            labels = [int(samples.dataset[index][1]) for index in range(len(samples))]
    except (TypeError, ValueError, IndexError, KeyError, RuntimeError):
        raise PfedulError(f"The samples of {owner} must be pairs (input, whole label).") from None
    if min(labels) < 0:
        raise PfedulError(f"The labels of {owner} must be whole numbers from 0 up.")
    return max(labels)
