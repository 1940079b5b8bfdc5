"""Tensor files: safetensors, never pickle, the same bytes for the same tensors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from pfedul.base.interruption import uninterrupted
from pfedul.base.tensors import Tensors
from pfedul.errors import PfedulError

_METADATA = {"format": "pt"}  # a second key would make the bytes depend on hash order


def encode(tensors: Tensors) -> bytes:
    """The bytes of a tensor file; equal tensors give equal bytes.

    They are those of `safetensors.torch.save`, which takes ten times as long where tensors are many
    and small, and is left to the types that are rare.
    """
    own = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    if any(tensor.dtype not in _TYPES for tensor in own.values()):
        with uninterrupted():
            return safetensors.torch.save(_without_aliases(own), metadata=_METADATA)
    order = sorted(own, key=lambda name: (_ORDER[own[name].dtype], name))
    parts = [own[name].reshape(-1).view(torch.uint8).numpy().data for name in order]
    ends = [0, *accumulate(part.nbytes for part in parts)]
    header: dict[str, Any] = {"__metadata__": _METADATA}
    for name, offsets in zip(order, pairwise(ends), strict=True):
        shape, kind = layout_of(own[name])
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": offsets}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNED)
    return b"".join([len(text).to_bytes(_ALIGNED, "little"), text, *parts])


def _without_aliases(tensors: Tensors) -> Tensors:
    """Tied tensors share memory, which the format refuses: each name gets its own copy."""
    seen: set[int] = set()
    own = {}
    for name, tensor in tensors.items():
        address = tensor.untyped_storage().data_ptr() if tensor.numel() else 0
        own[name] = tensor.clone() if address in seen else tensor
        seen.add(address)
    return own


def decode(data: bytes) -> Tensors:
    """The inverse of `encode`; what is not a tensor file raises safetensors' own error."""
    with uninterrupted():
        return safetensors.torch.load(data)


def read_file(path: Path) -> Tensors:
    """The tensors of a file; a missing, damaged or foreign file is refused as a whole."""
    with _refusing_damage(path), uninterrupted():
        return safetensors.torch.load_file(path)


@contextmanager
def _refusing_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise PfedulError(f"The file {path} is missing; restore it from a backup.") from None
    except (safetensors.SafetensorError, OSError, ValueError, KeyError) as error:
        raise PfedulError(
            f"The file {path} is damaged or is not a tensor file ({error}); "
            "restore it from a backup."
        ) from None


Layout = tuple[tuple[int, ...], str]
"""Shape and type of a tensor."""


def layout_of(tensor: Tensor) -> Layout:
    """
    >>> layout_of(torch.zeros(2, 3))
    ((2, 3), 'F32')
    """
    return tuple(tensor.shape), _TYPES.get(tensor.dtype, str(tensor.dtype))


def read_layout(path: Path) -> dict[str, Layout]:
    """Shapes and types of the tensors of a file; only its header is read."""
    with (
        _refusing_damage(path),
        uninterrupted(),
        safetensors.safe_open(path, framework="pt") as file,
    ):
        parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {name: (tuple(p.get_shape()), p.get_dtype()) for name, p in parts.items()}


_TYPES = {
    torch.int64: "I64",
    torch.float64: "F64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""The names that safetensors has for types, in the order in which it writes them."""

_ORDER = {kind: place for place, kind in enumerate(_TYPES)}
_ALIGNED = 8
"""Bytes of the header's length, and the multiple to which spaces fill the header."""


def as_tensors(sha256: str) -> Tensors:
    """A hash in the form of a tensor file.

    >>> as_hash(as_tensors("00ff"))
    '00ff'
    """
    return {"sha256": torch.frombuffer(bytearray.fromhex(sha256), dtype=torch.uint8)}


def as_hash(tensors: Tensors) -> str:
    """The inverse of `as_tensors`."""
    return bytes(tensors["sha256"].tolist()).hex()
