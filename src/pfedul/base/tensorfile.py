"""Tensor files: safetensors, never pickle, the same bytes for the same tensors."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from pfedul.base.interruption import uninterrupted
from pfedul.base.tensors import Tensors
from pfedul.errors import PfedulError

_METADATA = {"format": "pt"}  # a second key would make the bytes depend on hash order


def encode(tensors: Tensors) -> bytes:
    """The bytes of a tensor file; equal tensors give equal bytes."""
    own = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    with uninterrupted():
        return safetensors.torch.save(_without_aliases(own), metadata=_METADATA)


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
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""The names that safetensors has for types."""


def digest(data: bytes) -> str:
    """SHA-256 of the bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def is_digest(text: object) -> bool:
    """Whether this is a SHA-256 in hexadecimal.

    >>> is_digest(digest(b"")), is_digest("../x")
    (True, False)
    """
    return isinstance(text, str) and _SHA256.fullmatch(text) is not None


_SHA256 = re.compile("[0-9a-f]{64}")


def digest_file(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def as_tensors(sha256: str) -> Tensors:
    """A hash in the form of a tensor file.

    >>> as_hash(as_tensors("00ff"))
    '00ff'
    """
    return {"sha256": torch.frombuffer(bytearray.fromhex(sha256), dtype=torch.uint8)}


def as_hash(tensors: Tensors) -> str:
    """The inverse of `as_tensors`."""
    return bytes(tensors["sha256"].tolist()).hex()
