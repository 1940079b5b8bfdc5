"""The user's own clients, given in Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from pfedul.base.code import reason
from pfedul.base.inputs import shape_of
from pfedul.data.checks import check_ids, classes_up_to
from pfedul.data.samples import (
    AT_ONCE,
    ClientData,
    DatasetSamples,
    FederatedData,
    Samples,
    TensorSamples,
    as_samples,
    collates,
    without_labels,
)
from pfedul.errors import PfedulError
from pfedul.tasks.base import LearningTask
from pfedul.tasks.classification import CLASSIFICATION
from pfedul.tasks.collate import is_sequence


def own_clients(
    mapping: Mapping[str, tuple[Any, Any]], task: LearningTask = CLASSIFICATION
) -> FederatedData:
    """Data from `{client: (train, test)}`, each part (inputs, labels) or a map-style Dataset.

    Classes are numbered from 0; there are as many as the largest label says. Inputs that are
    bytes are images, divided by 255, or tokens: see `tensor_samples`.
    """
    if not isinstance(mapping, Mapping):
        raise PfedulError(
            f"Own data must be {{client: (train, test)}}, not {type(mapping).__name__}."
        )
    if not mapping:
        raise PfedulError("There are no clients; give at least one as {name: (train, test)}.")
    check_ids(mapping)
    clients = {name: _client(name, parts, task) for name, parts in mapping.items()}
    parts = {f"{name}, {part}": s for name, client in clients.items() for part, s in _parts(client)}
    seen = {owner: _seen(samples, owner, task) for owner, samples in parts.items()}
    _check_same_inputs(seen)
    _check_same_width(seen, task)
    _check_same_form(seen)
    outputs = max(one.outputs for one in seen.values())
    return FederatedData(_filled(clients, seen), classes_up_to(outputs - 1))


def _client(name: str, parts: Any, task: LearningTask) -> ClientData:
    if not isinstance(parts, tuple | list) or len(parts) != 2:
        raise PfedulError(f"The data of client '{name}' must be a pair (train, test).")
    train, test = (
        as_samples(given, f"client '{name}' ({part})", task)
        for given, part in zip(parts, ("train", "test"), strict=True)
    )
    if not len(train) or not len(test):
        raise PfedulError(
            f"The client '{name}' has an empty train or test part; fill or remove it."
        )
    return ClientData(train, test)


def _parts(client: ClientData) -> tuple[tuple[str, Samples], ...]:
    return ("train", client.train), ("test", client.test)


@dataclass(frozen=True)
class _Seen:
    """What is known of a part once it has been read.

    `inputs`: their shape, of those in memory alone: others are read sample by sample, later.
    `outputs`: how many numbers the labels ask of a model. `sequences`: they are lists of tokens.
    """

    inputs: str | None
    outputs: int
    sequences: bool = False


def _seen(samples: Samples, owner: str, task: LearningTask) -> _Seen:
    if isinstance(samples, TensorSamples):
        return _Seen(shape_of(samples.x), task.outputs(samples.y))
    assert isinstance(samples, DatasetSamples)
    try:
        with torch.random.fork_rng(devices=[]):  # reading leaves the caller's stream as it was
            return _read(samples, task)
    except (PfedulError, MemoryError):
        raise
    except Exception as error:  # whatever the user's Dataset does
        raise PfedulError(
            f"The samples of {owner} must be pairs (input, label), or dictionaries with 'labels', "
            f"of numbers or tensors, with labels for the task {task.name} ({reason(error)})."
        ) from error


def _read(samples: DatasetSamples, task: LearningTask) -> _Seen:
    """Read every sample once, as sequences of any length if they are sequences."""
    first = without_labels(samples.dataset[0])
    sequences = not collates(samples) and is_sequence(first[0])
    outputs = 0
    for indices in torch.split(torch.arange(len(samples), device="cpu"), AT_ONCE):
        _, y = replace(samples, filled=sequences).batch(indices)
        outputs = max(outputs, task.outputs(y))
    return _Seen(None, outputs, sequences)


def _check_same_inputs(seen: Mapping[str, _Seen]) -> None:
    known = [(owner, one.inputs) for owner, one in seen.items() if one.inputs is not None]
    for owner, inputs in known:
        if inputs != known[0][1]:
            raise PfedulError(
                f"Inputs must have one shape, but they are {inputs} in {owner} and {known[0][1]} "
                f"in {known[0][0]}; make them alike."
            )


def _check_same_width(seen: Mapping[str, _Seen], task: LearningTask) -> None:
    widths = sorted({one.outputs for one in seen.values()})
    if task.same_width and len(widths) > 1:
        raise PfedulError(
            f"Some samples have {widths[0]} labels and some {widths[-1]}; the task {task.name} "
            "needs as many for each."
        )


def _check_same_form(seen: Mapping[str, _Seen]) -> None:
    if len({one.sequences for one in seen.values()}) > 1:
        raise PfedulError(
            "Sequences of tokens are filled up only where all clients have them as lists of pairs "
            "(sequence, label) without a collate; give all data in one form."
        )


def _filled(clients: dict[str, ClientData], seen: Mapping[str, _Seen]) -> dict[str, ClientData]:
    """The clients, with batches of sequences filled up.

    Those of one length as well: what a model is given must not depend on which clients are there.
    """
    if not any(one.sequences for one in seen.values()):
        return clients
    return {
        name: ClientData(*(_as_filled(part) for _, part in _parts(client)))
        for name, client in clients.items()
    }


def _as_filled(samples: Samples) -> Samples:
    assert isinstance(samples, DatasetSamples)
    return replace(samples, filled=True)
