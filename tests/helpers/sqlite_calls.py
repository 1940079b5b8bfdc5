"""Lets a system call of SQLite fail, by the interface that SQLite has for tests of this kind."""

from __future__ import annotations

import _sqlite3
import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_Pointer = ctypes.c_void_p
_BEFORE = ("xOpen", "xDelete", "xAccess", "xFullPathname", "xDlOpen", "xDlError", "xDlSym")
_THEN = ("xDlClose", "xRandomness", "xSleep", "xCurrentTime", "xGetLastError", "xCurrentTimeInt64")


class _System(ctypes.Structure):
    """SQLite's `sqlite3_vfs`."""


_System._fields_ = [
    *(("iVersion", ctypes.c_int), ("szOsFile", ctypes.c_int), ("mxPathname", ctypes.c_int)),
    *(("pNext", _Pointer), ("zName", ctypes.c_char_p), ("pAppData", _Pointer)),
    *((name, _Pointer) for name in (*_BEFORE, *_THEN)),
    (
        "xSetSystemCall",
        ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_System), ctypes.c_char_p, _Pointer),
    ),
    (
        "xGetSystemCall",
        ctypes.CFUNCTYPE(_Pointer, ctypes.POINTER(_System), ctypes.c_char_p),
    ),
]

_FILE, _NAME = ctypes.c_int, ctypes.c_char_p
_INTEGER, _SIZE, _OFFSET = ctypes.c_int, ctypes.c_size_t, ctypes.c_int64
_CALLS = {
    "open": (_INTEGER, _NAME, _INTEGER, _INTEGER),
    "stat": (_INTEGER, _NAME, _Pointer),
    "fstat": (_INTEGER, _FILE, _Pointer),
    "ftruncate": (_INTEGER, _FILE, _OFFSET),
    "pread64": (ctypes.c_ssize_t, _FILE, _Pointer, _SIZE, _OFFSET),
    "pwrite64": (ctypes.c_ssize_t, _FILE, _Pointer, _SIZE, _OFFSET),
    "unlink": (_INTEGER, _NAME),
    "openDirectory": (_INTEGER, _NAME, ctypes.POINTER(ctypes.c_int)),
}
"""Name -> the type of its result, then those of its arguments."""


def can_fail() -> bool:
    """Whether Python's SQLite shows this interface here (it does on most Linux systems)."""
    return hasattr(ctypes.CDLL(_sqlite3.__file__), "sqlite3_vfs_find")


@contextmanager
def failing(error_of: Callable[[str], int]) -> Iterator[None]:
    """Ask `error_of` before every call within the block: 0, or the error with which it fails."""
    find = ctypes.CDLL(_sqlite3.__file__).sqlite3_vfs_find
    find.restype, find.argtypes = ctypes.POINTER(_System), [ctypes.c_char_p]
    system = find(None)
    kept = []
    for name, (result, *arguments) in _CALLS.items():
        kind = ctypes.CFUNCTYPE(result, *arguments, use_errno=True)
        address = system.contents.xGetSystemCall(system, name.encode())
        wrapper = kind(_wrapped(name, kind(address), error_of))
        kept.append((name, address, wrapper))
        system.contents.xSetSystemCall(system, name.encode(), ctypes.cast(wrapper, _Pointer))
    try:
        yield
    finally:
        for name, address, _ in kept:
            system.contents.xSetSystemCall(system, name.encode(), address)


def _wrapped(
    name: str, call: Callable[..., int], error_of: Callable[[str], int]
) -> Callable[..., int]:
    def wrapper(*arguments: object) -> int:
        error = error_of(name)
        if not error:
            return call(*arguments)
        ctypes.set_errno(error)
        return error if name == "openDirectory" else -1

    return wrapper
