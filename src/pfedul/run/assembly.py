"""From settings to a workbench: data, model and personalisation put together and checked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pfedul.base.code import needed_arguments
from pfedul.base.device import device_of
from pfedul.base.inputs import Inputs, answer, named_tensors, shape_of
from pfedul.base.randomness import random_stream
from pfedul.data.backdoor import with_backdoor
from pfedul.data.datasets import DATASETS
from pfedul.data.load import load_clients
from pfedul.data.own import own_clients
from pfedul.data.samples import ClientData, FederatedData, TensorSamples, batch_of
from pfedul.data.trigger import parse_backdoor
from pfedul.errors import PfedulError
from pfedul.models import MODELS, model_factory
from pfedul.personalization import PERSONALIZATIONS
from pfedul.personalization.augmentation import fits
from pfedul.protocol import Workbench
from pfedul.records import RECORDS
from pfedul.run.privacy import refuse_statistics
from pfedul.settings import OWN, Settings
from pfedul.split import head_of
from pfedul.tasks.base import LearningTask
from pfedul.tasks.collate import MASK

_FIRST = torch.zeros(1, dtype=torch.int64, device="cpu")  # the index of the first sample

ModelFactory = Callable[[], nn.Module]
OwnData = Mapping[str, Any]


def load_data(settings: Settings, own: OwnData | None) -> FederatedData:
    """The clients' data: the user's own, or what the settings name."""
    if own is not None:
        return own_data(settings, own)
    if settings.data == OWN or DATASETS.own_code(settings.data):
        raise PfedulError(
            "This run has data of your own; give them again: data=... in Python, or the function "
            "that returns them, --data package.module:function."
        )
    root = None if settings.data_root is None else Path(settings.data_root)
    loaded = load_clients(
        settings.data,
        settings.partition,
        settings.clients,
        settings.seed,
        root,
        settings.samples,
        settings.min_samples,
        settings.small_clients,
        settings.test_samples,
    )
    return _planted(settings, _for_task(settings.training.task, loaded))


def own_data(settings: Settings, own: OwnData) -> FederatedData:
    """The user's own data, all of it or one client's."""
    return _planted(settings, own_clients(own, settings.training.task))


def _for_task(task: LearningTask, data: FederatedData) -> FederatedData:
    """A data set of classes with the targets of another task, if it can have them."""
    if task.classes:
        return data
    clients = {name: with_targets(task, name, parts) for name, parts in data.clients.items()}
    everything = [batch_of(part)[1] for own in clients.values() for part in (own.train, own.test)]
    return replace(data, clients=clients, classes=max(map(task.outputs, everything)))


def with_targets(task: LearningTask, owner: str, parts: ClientData) -> ClientData:
    """Samples of classes with the targets of the task."""
    if task.classes:
        return parts
    pairs = [batch_of(part) for part in (parts.train, parts.test)]
    return ClientData(*(TensorSamples(x, task.checked(x, y, owner)) for x, y in pairs))


def _planted(settings: Settings, data: FederatedData) -> FederatedData:
    """The data with the backdoor that the settings ask for."""
    if settings.plant_backdoor is None:
        return data
    if not settings.training.task.classes:
        raise PfedulError(
            f"A backdoor has a class as its label, and the task {settings.training.task.name} has "
            "none; leave out --plant-backdoor."
        )
    return with_backdoor(data, parse_backdoor(settings.plant_backdoor), settings.seed)


def assemble(settings: Settings, data: FederatedData, own_model: ModelFactory | None) -> Workbench:
    """Everything that a process needs in order to work for any client."""
    bench = assemble_at_server(settings, input_shape(data), data.classes, own_model)
    _check_augmentation(settings, data)
    model = bench.build_model()
    data = in_type_of(model, data)
    _check_output(model, data, settings.training.task)
    _check_single_samples(model, data, settings.batch_size)
    random_split = data.random_split or settings.random_split
    return replace(bench, data=data.clients, random_split=random_split)


def assemble_at_server(
    settings: Settings, shape: tuple[int, ...], classes: int, own_model: ModelFactory | None
) -> Workbench:
    """The workbench without data: that of a server whose clients are on other machines."""
    device_of(settings.device)  # fail now, not in a round
    personalization, options = PERSONALIZATIONS.parse(settings.personalization)
    factory = _model_factory(settings, shape, classes, own_model)
    prepare = personalization.prepare and partial(personalization.prepare, options)
    build = InitialModel(factory, settings.seed, prepare)
    model = build()
    head = head_of(model, settings.head) if personalization.needs_head else None
    split = personalization.split(model, head) if head else personalization.split(model)
    refuse_statistics(settings, split)
    training, seed = settings.training, settings.seed
    bench = Workbench(build, split, head, personalization, options, training, {}, seed)
    return replace(bench, device=settings.device, precision=settings.precision)


def in_type_of(model: nn.Module, data: FederatedData) -> FederatedData:
    """The data converted to the model's floating-point type."""
    kinds = [p.dtype for p in model.parameters() if p.is_floating_point()]
    wanted = kinds[0] if kinds else torch.get_default_dtype()
    clients = {
        name: ClientData(parts.train.as_type(wanted), parts.test.as_type(wanted))
        for name, parts in data.clients.items()
    }
    return replace(data, clients=clients)


def _check_augmentation(settings: Settings, data: FederatedData) -> None:
    inputs, _ = _first_batch(data)
    if settings.augment != "none" and not fits(inputs):
        raise PfedulError(
            f"--augment {settings.augment} is for images of the shape [channels, height, width], "
            f"and samples here have the shape {shape_of(inputs)}; leave it out."
        )


@torch.no_grad()
def _check_single_samples(model: nn.Module, data: FederatedData, batch_size: int) -> None:
    """Fail now, not in a round, if a batch could be one sample and the model cannot train on it."""
    smallest = min(data.clients, key=lambda name: len(data.clients[name].train))
    if batch_size > 1 and len(data.clients[smallest].train) > 1:
        return
    model.train()
    try:
        answer(model, data.clients[smallest].train.batch(_FIRST)[0])
    except ValueError as error:
        raise PfedulError(
            f"The model cannot be trained on a single sample ({error}); "
            f"use a larger --batch-size, and leave out clients with one sample."
        ) from None


@dataclass(frozen=True)
class InitialModel:
    """Makes the model as it is before training, the same in every process."""

    factory: ModelFactory
    seed: int
    prepare: Callable[[nn.Module], None] | None = None

    def __call__(self) -> nn.Module:
        try:
            with random_stream(self.seed, "init"), torch.device("cpu"):
                return self._made()
        except (RuntimeError, MemoryError) as error:
            raise PfedulError(f"The model cannot be built: {error}") from error

    def _made(self) -> nn.Module:
        model = self.factory()
        if not isinstance(model, nn.Module):
            raise PfedulError(
                f"The model factory returned {type(model).__name__}, not a torch.nn.Module."
            )
        if self.prepare is not None:
            self.prepare(model)
        return model


def reseeded(bench: Workbench, seed: int, clients: Collection[str]) -> Workbench:
    """The same workbench with another seed (initial weights and draws), for some of the clients."""
    build = bench.build_model
    if isinstance(build, InitialModel):
        build = replace(build, seed=seed)
    data = {client: bench.data[client] for client in clients}
    return replace(bench, build_model=build, seed=seed, data=data)


def _model_factory(
    settings: Settings, shape: tuple[int, ...], classes: int, own: ModelFactory | None
) -> ModelFactory:
    if own is None and (settings.model == OWN or MODELS.own_code(settings.model)):
        raise PfedulError(
            "This run has a model of your own; give it again: model=... in Python, or the function "
            "that makes it, --model package.module:function."
        )
    if own is None:
        return model_factory(settings.model, shape, classes, settings.training.task)
    if isinstance(own, nn.Module):
        raise PfedulError(
            "Give a function that makes the model, such as model=lambda: Net(), not a model: "
            "every process needs one of its own."
        )
    if needed := needed_arguments(own):
        raise PfedulError(
            f"The function that makes the model needs values for its arguments: "
            f"{', '.join(needed)}; give one that needs none, such as "
            f"model=partial(function, {', '.join(f'{name}=...' for name in needed)})."
        )
    return own


def check_clients(settings: Settings, clients: Collection[str]) -> None:
    """Refuse a new run whose settings do not fit the clients that it is made with."""
    _check_enough(settings, len(clients))
    _check_clusters(settings, len(clients))
    if settings.plant_backdoor is None:
        return
    holder = parse_backdoor(settings.plant_backdoor).client
    if holder not in clients:
        raise PfedulError(
            f"There is no client '{holder}' to plant a backdoor at; "
            f"there are {len(clients)} others, such as '{min(clients)}'."
        )


def _check_clusters(settings: Settings, clients: int) -> None:
    if settings.clusters == 1:
        return
    if settings.clusters > clients:
        raise PfedulError(
            f"--clusters {settings.clusters} is more than the {clients} clients; give fewer."
        )
    odd = [name for name in settings.records if not RECORDS[name].with_clusters]
    if odd:
        fitting = [record.name for record in RECORDS if record.with_clusters]
        raise PfedulError(
            f"The record {odd[0]} is about one model that all clients share, and clusters have "
            f"several; give --record {', '.join(fitting)} or none with --clusters."
        )


def _check_enough(settings: Settings, clients: int) -> None:
    """Refuse --min-replies that no round could ever reach."""
    asked = max(1, round(settings.participation * clients))
    if settings.min_replies > asked:
        raise PfedulError(
            f"--min-replies {settings.min_replies} can never be met: a round asks {asked} clients."
        )


def input_shape(data: FederatedData) -> tuple[int, ...]:
    """The shape of one sample, or of its first input; (1,) for sequences of any length."""
    inputs, _ = _first_batch(data)
    named = named_tensors(inputs)
    return (1,) if MASK in named else tuple(next(iter(named.values())).shape[1:])


def _first_batch(data: FederatedData) -> tuple[Inputs, torch.Tensor]:
    train = next(iter(data.clients.values())).train
    return train.batch(torch.arange(min(2, len(train)), device="cpu"))


@torch.no_grad()
def _check_output(model: nn.Module, data: FederatedData, task: LearningTask) -> None:
    inputs, labels = _first_batch(data)
    model.eval()
    try:
        output = answer(model, inputs)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise PfedulError(
            f"The model cannot be applied to samples of shape {shape_of(inputs)}: {error}"
        ) from error
    task.check_output(output, labels, data.classes)
