"""Tensors in memory that several processes see at once.

The memory is an unlinked file: it has no name, so nothing is left behind when
the processes that hold it end, however they end.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pfedul.base.tensors import Tensors

_ALIGNMENT = 64  # as torch's own allocator does, so computing on a view is as fast


@dataclass(frozen=True)
class Place:
    """Where one tensor lies in a buffer."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int

    @property
    def count(self) -> int:
        return torch.Size(self.shape).numel()

    @property
    def end(self) -> int:
        return self.offset + self.count * self.dtype.itemsize


Places = dict[str, Place]


def lay_out(tensors: Mapping[str, Tensor]) -> tuple[Places, int]:
    """A place for each tensor, and the bytes needed for all."""
    layout, offset = {}, 0
    for name, tensor in tensors.items():
        place = Place(tensor.dtype, tuple(tensor.shape), offset)
        layout[name] = place
        offset = -(-place.end // _ALIGNMENT) * _ALIGNMENT
    return layout, offset


class SharedBuffer:
    """Owns one piece of nameless memory; grows when more is written than fits."""

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = _nameless_file() if descriptor is None else descriptor
        self._map: mmap.mmap | None = None

    def write(self, tensors: Mapping[str, Tensor]) -> Places:
        """Copy tensors in; the layout tells a reader where they are."""
        layout, size = lay_out(tensors)
        if size > os.fstat(self.descriptor).st_size:
            os.ftruncate(self.descriptor, size)
        views = self.read(layout)
        with torch.no_grad():
            for name, tensor in tensors.items():
                views[name].copy_(tensor)
        return layout

    def read(self, layout: Places) -> Tensors:
        """Views of the tensors, without a copy: they change when the buffer is written again."""
        memory = self._mapped(max((place.end for place in layout.values()), default=0))
        return views(memory, layout)

    def _mapped(self, size: int) -> mmap.mmap | None:
        if size and (self._map is None or len(self._map) < size):
            self._map = mmap.mmap(self.descriptor, os.fstat(self.descriptor).st_size)
        return self._map

    def close(self) -> None:
        """Give the descriptor back; views that are still held keep their memory."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor, self._map = -1, None


def views(memory: Any, layout: Places) -> Tensors:
    """Views of the tensors in a piece of memory, without a copy."""
    return {name: _view(memory, place) for name, place in layout.items()}


def _view(memory: Any, place: Place) -> Tensor:
    if memory is None or place.count == 0:
        return torch.empty(place.shape, dtype=place.dtype, device="cpu")
    flat = torch.frombuffer(memory, dtype=place.dtype, count=place.count, offset=place.offset)
    return flat.view(place.shape)


def _nameless_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("pfedul")
    descriptor, name = tempfile.mkstemp(prefix="pfedul-")
    Path(name).unlink()
    return descriptor
