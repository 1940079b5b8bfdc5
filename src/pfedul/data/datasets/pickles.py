"""Reading a pickle of plain values and numpy arrays, and nothing else.

The official Python version of CIFAR is a pickle, and a pickle may call any
function while it is read. Here it may name only what an array of numbers is
made of, and even those names lead to stand-ins: numpy's own constructors accept
raw memory addresses, so a hostile file must not reach them either.
"""

from __future__ import annotations

import io
import pickle
import re
from typing import Any

import numpy as np

from pfedul.errors import PfedulError

_PLAIN_NUMBERS = re.compile(r"[biuf][1248]")


def read_plain_pickle(name: str, content: bytes) -> Any:
    """The value in a pickle; arrays are `PickledArray`, strings of Python 2 are bytes."""
    try:
        return _PlainUnpickler(io.BytesIO(content), encoding="bytes").load()
    except PfedulError:
        raise
    # A broken pickle can fail in any way: bad opcodes, missing bytes, wrong types.
    except Exception:
        raise PfedulError(
            f"The file {name} is not a readable pickle of plain arrays; fetch the official one."
        ) from None


class PickledDtype:
    """Stands for `numpy.dtype`: only whole or floating numbers of fixed size."""

    def __init__(self, code: str | bytes, *_flags: object) -> None:
        self.code = code.decode("ascii") if isinstance(code, bytes) else code
        self.order = "|"
        if not _PLAIN_NUMBERS.fullmatch(self.code):
            raise ValueError(self.code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1].decode("ascii") if isinstance(state[1], bytes) else state[1]
        self.order = {"<": "<", ">": ">"}.get(order, "|")

    def real(self) -> np.dtype[Any]:
        return np.dtype(self.order + self.code)


class PickledArray:
    """Stands for `numpy.ndarray` while it is rebuilt; `values` is the array itself."""

    def __init__(self, *_type_and_shape: object) -> None:
        self.values: np.ndarray[Any, np.dtype[Any]] = np.empty(0)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, shape, dtype, by_columns, raw = state
        flat = np.frombuffer(raw, dtype.real())
        self.values = flat.reshape(shape, order="F" if by_columns else "C")


def _from_buffer(raw: bytes, dtype: PickledDtype, shape: object, order: str) -> PickledArray:
    """Stands for the function that protocol 5 rebuilds arrays with."""
    array = PickledArray()
    array.__setstate__((1, shape, dtype, order == "F", raw))
    return array


def _encoded(text: str, _codec: str) -> bytes:
    """Stands for `_codecs.encode`, by which protocols up to 2 write bytes, always as latin1."""
    return text.encode("latin1")


# `numpy.ndarray` itself is only ever an argument, so a word that cannot be called will do.
_STAND_INS: dict[tuple[str, str], object] = {
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): PickledDtype,
    ("_codecs", "encode"): _encoded,
    **{(f"numpy.{c}.multiarray", "_reconstruct"): PickledArray for c in ("core", "_core")},
    **{(f"numpy.{c}.numeric", "_frombuffer"): _from_buffer for c in ("core", "_core")},
}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise PfedulError(
                f"A pickled data file asks for '{module}.{name}', which plain data never need: it "
                "was refused and nothing in it was run; fetch the official file."
            )
        return _STAND_INS[module, name]
