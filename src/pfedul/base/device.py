"""Where models compute: on the CPU, or on an accelerator, and in which precision.

Server, records and ledger are always on the CPU: tensors go to the device with a task, and come
back with its reply.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from pfedul.base.names import DEVICES
from pfedul.base.tensors import Tensors
from pfedul.errors import PfedulError

CPU = torch.device("cpu")


def device_of(name: str) -> torch.device:
    """The device of this name; `auto` is the best that this machine has."""
    if name == "auto":
        return torch.device(_best())
    try:
        device = torch.device(name)
    except RuntimeError:
        raise PfedulError(f"There is no device '{name}'; give {DEVICES}.") from None
    _check_present(device, name)
    return device


def _best() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _check_present(device: torch.device, name: str) -> None:
    counts = {
        "cpu": 1,
        "cuda": torch.cuda.device_count(),
        "mps": int(torch.backends.mps.is_available()),
    }
    if device.type not in counts:
        raise PfedulError(f"pfedul does not compute on '{name}'; give {DEVICES}.")
    if (device.index or 0) >= counts[device.type]:
        have = counts[device.type]
        raise PfedulError(
            f"This machine has {have or 'no'} {device.type} device{'s' if have != 1 else ''} that "
            f"torch can use, so '{name}' is not there; give --device cpu."
        )


def prepare(device: torch.device) -> None:
    """Ask for deterministic algorithms; what has none warns and goes on. Nothing on the CPU."""
    if device.type == "cpu":
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False


@contextmanager
def in_precision(device: torch.device, precision: str) -> Iterator[None]:
    """Within the block models compute in this precision; parameters stay as they are."""
    if precision == "float32":
        yield
        return
    # Without the cache: it would keep weights as they were before a step.
    kind = getattr(torch, precision)
    with torch.autocast(device.type, dtype=kind, cache_enabled=False):
        yield


def moved(tensors: Tensors, device: torch.device) -> Tensors:
    """The tensors on the device; the same ones where they are there already."""
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def device_of_model(model: nn.Module) -> torch.device:
    """Where the model's tensors are; a model without any works on the CPU."""
    tensors = (*model.parameters(), *model.buffers())
    return tensors[0].device if tensors else CPU
