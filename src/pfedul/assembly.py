"""From settings to a workbench: data, model and personalisation put together and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pfedul.client import Workbench
from pfedul.data import FederatedData, load_clients, own_clients
from pfedul.errors import PfedulError
from pfedul.models import build_model
from pfedul.personalization import PERSONALIZATIONS
from pfedul.randomness import torch_stream
from pfedul.settings import OWN, Settings
from pfedul.split import head_of

ModelFactory = Callable[[], nn.Module]
OwnData = Mapping[str, Any]


def load_data(settings: Settings, own: OwnData | None) -> FederatedData:
    """The clients' data: the user's own, or what the settings name."""
    if settings.data == OWN:
        if own is None:
            raise PfedulError(
                "This run was made with data given in Python; open it there, with "
                "Federation.open(run, data=...)."
            )
        return own_clients(own)
    root = None if settings.data_root is None else Path(settings.data_root)
    return load_clients(
        settings.data,
        settings.partition,
        settings.clients,
        settings.seed,
        root,
        settings.samples,
        settings.min_samples,
        settings.small_clients,
    )


def assemble(settings: Settings, data: FederatedData, own_model: ModelFactory | None) -> Workbench:
    """Everything that a process needs in order to work for any client."""
    factory = _model_factory(settings, data, own_model)
    personalization, options = PERSONALIZATIONS.parse(settings.personalization)
    build = partial(build_initial, factory, settings.seed)
    model = build()
    _check_output(model, data)
    head = head_of(model, settings.head) if personalization.needs_head else None
    split = personalization.split(model, head) if head else personalization.split(model)
    training = settings.training
    return Workbench(
        *(build, split, head, personalization, options, training), data.clients, settings.seed
    )


def build_initial(factory: ModelFactory, seed: int) -> nn.Module:
    """The model as it is before training: the same for the same seed."""
    with torch_stream(seed, "init"):
        model = factory()
    if not isinstance(model, nn.Module):
        raise PfedulError(
            f"The model factory returned {type(model).__name__}, not a torch.nn.Module."
        )
    return model


def _model_factory(
    settings: Settings, data: FederatedData, own: ModelFactory | None
) -> ModelFactory:
    if settings.model != OWN:
        return partial(build_model, settings.model, input_shape(data), data.classes)
    if own is None:
        raise PfedulError(
            "This run was made with a model given in Python; open it there, with "
            "Federation.open(run, model=...)."
        )
    return own


def input_shape(data: FederatedData) -> tuple[int, ...]:
    """The shape of one sample."""
    return tuple(_first_inputs(data).shape[1:])


def _first_inputs(data: FederatedData) -> torch.Tensor:
    train = next(iter(data.clients.values())).train
    return train.batch(torch.arange(min(2, len(train))))[0]


@torch.no_grad()
def _check_output(model: nn.Module, data: FederatedData) -> None:
    inputs = _first_inputs(data)
    shape = tuple(inputs.shape[1:])
    model.eval()
    try:
        output = model(inputs)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise PfedulError(
            f"The model cannot be applied to samples of shape {shape}: {error}"
        ) from error
    if output.ndim != 2 or output.shape[1] < data.classes:
        raise PfedulError(
            f"The model's output of shape {tuple(output.shape[1:])} does not fit the "
            f"{data.classes} classes of the data; it must give one number for each class."
        )
