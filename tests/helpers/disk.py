"""What is done to the files below a folder: counted, refused, or handed to somebody who watches.

SQLite does its work without Python's functions; helpers/sqlite_calls.py is for that.
"""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHANGING = ("replace", "rename", "unlink", "remove", "rmdir", "mkdir", "link", "chmod", "fsync")
ASKING = ("open", "scandir", "listdir", "stat", "lstat")

Before = Callable[[str, Path], None]
"""(the name of a function, the file that it is about to be applied to); may raise OSError."""
After = Callable[[str, Path, tuple[Any, ...]], None]
"""(the same, and its arguments), after it."""


def nothing(*_: object) -> None:
    """Watch nothing."""


class Disk:
    """Owns the functions of `os`, and `open`, while it watches a folder."""

    def __init__(self, root: Path, before: Before = nothing, after: After = nothing) -> None:
        self._root = f"{root}/"
        self._before, self._after = before, after
        self._quiet = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Every act within the block that touches the folder goes through `before` and `after`."""
        with pytest.MonkeyPatch.context() as patch:
            for name in (*CHANGING, *ASKING):
                patch.setattr(os, name, self._wrapped(name, getattr(os, name)))
            opened = self._wrapped_open(io.open)
            patch.setattr(io, "open", opened)
            patch.setattr(builtins, "open", opened)
            yield

    def _wrapped(self, name: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any, **options: Any) -> Any:
            path = None if self._quiet or not arguments else self._path(arguments[0], options)
            if path is None:
                return act(*arguments, **options)
            self._tell(self._before, name, path)
            result = act(*arguments, **options)
            self._tell(self._after, name, path, arguments)
            return result

        return wrapper

    def _wrapped_open(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
            path = None if self._quiet else self._path(file, {})
            writing = path is not None and not set(mode).isdisjoint("wax+")
            if not writing:
                return act(file, mode, *rest, **options)
            self._tell(self._before, "create", path)
            opened = act(file, mode, *rest, **options)
            self._tell(self._after, "create", path, (opened,))
            return _Written(opened, lambda: self._tell(self._before, "write", path))

        return wrapper

    def _path(self, place: Any, options: dict[str, Any]) -> Path | None:
        """The file that an act is about, if it is below the folder."""
        folder = options.get("dir_fd")
        path = self._named(place)
        if path is not None and folder is not None:
            path = f"{self._named(folder)}/{path}"
        return Path(path) if path is not None and f"{path}/".startswith(self._root) else None

    def _named(self, place: Any) -> str | None:
        if not isinstance(place, int):
            return os.fsdecode(place) if isinstance(place, str | bytes | os.PathLike) else None
        try:
            return os.readlink(f"/proc/self/fd/{place}")
        except OSError:
            return None

    def _tell(self, listener: Callable[..., None], *what: Any) -> None:
        """What a listener itself does is not watched."""
        self._quiet = True
        try:
            listener(*what)
        finally:
            self._quiet = False


class _Written:
    """A file open for writing that says so before it is written to."""

    def __init__(self, file: Any, before_write: Callable[[], None]) -> None:
        self._file, self._before_write = file, before_write

    def __enter__(self) -> _Written:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, data: Any) -> Any:
        self._before_write()
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
