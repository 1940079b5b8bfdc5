"""Run folders as files: claim, lock, sync, and errors of the operating system as sentences."""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import shutil
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from pfedul.base.tensorfile import digest, encode
from pfedul.base.tensors import Tensors
from pfedul.errors import Hindrance, PfedulError
from pfedul.store.ledger import Ledger, Statement, insert
from pfedul.store.paths import (
    CLIENTS,
    DEPLOYMENT,
    INIT_FILE,
    LEDGER_FILE,
    LOCK_FILE,
    SETTINGS_FILE,
    SHARED_FILE,
)


def require_run(path: Path) -> None:
    """Refuse what is not a run folder."""
    if not path.exists():
        raise PfedulError(f"There is no run at {path}; create it with 'pfedul train {path}'.")
    if not path.is_dir():
        raise PfedulError(f"{path} is a file, not a run folder; give another path.")
    if not (path / LEDGER_FILE).is_file():
        raise PfedulError(f"{path} is not a pfedul run folder (it has no {LEDGER_FILE}).")


def refuse_unusable(path: Path) -> None:
    """Refuse a place where no new run can be made."""
    if path.is_file():
        raise PfedulError(f"{path} is a file, not a run folder; give another path.")
    if path.is_dir() and {entry.name for entry in path.iterdir()} - _BEFORE_A_RUN:
        known = (path / LEDGER_FILE).is_file()
        raise PfedulError(_HOLDS_A_RUN.format(path) if known else _NOT_EMPTY.format(path))
    if path == Path.cwd():
        raise PfedulError("A run needs a folder of its own; give the name of a new one.")


_BEFORE_A_RUN = {
    *(DEPLOYMENT, SETTINGS_FILE, INIT_FILE, SHARED_FILE, LOCK_FILE, CLIENTS),
}
"""A deployment, and what a process left that was killed while it moved a new run beside it."""


_HOLDS_A_RUN = "{} already holds a run; continue that, or give another path."

_NOT_EMPTY = "{} is not empty and not a run; give another path."


def claim(draft: Path, path: Path) -> None:
    if (path / DEPLOYMENT).is_dir():
        _move_beside_deployment(draft, path)
        return
    try:
        draft.rename(path)
    except OSError as error:
        if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:
            raise
        raise PfedulError(_HOLDS_A_RUN.format(path)) from None


def _move_beside_deployment(draft: Path, path: Path) -> None:
    """Entry by entry, the ledger last: without it the folder is not yet a run."""
    if (path / LEDGER_FILE).exists():
        raise PfedulError(_HOLDS_A_RUN.format(path))
    last = [LOCK_FILE, LEDGER_FILE]  # while it has its lock, a draft that is left is swept away
    entries = sorted(
        draft.iterdir(), key=lambda entry: last.index(entry.name) if entry.name in last else -1
    )
    for entry in entries:
        if (path / entry.name).is_dir():
            shutil.rmtree(path / entry.name)
        os.replace(entry, path / entry.name)
    draft.rmdir()
    sync(path)


def sweep_drafts(path: Path) -> None:
    """Remove what a process left that was killed while it created this run."""
    for draft in path.parent.glob(f".{glob.escape(path.name)}.*"):
        with suppress(OSError, PfedulError):
            take_lock(draft, create=False).close()
            shutil.rmtree(draft)


def write_draft(
    draft: Path, settings: str, tensors: Mapping[str, Tensors], rows: Sequence[Statement]
) -> IO[str]:
    lock = take_lock(draft)
    (draft / SETTINGS_FILE).write_text(settings, encoding="utf-8")
    statements = list(rows)
    for name, content in tensors.items():
        data = encode(content)
        (draft / name).parent.mkdir(parents=True, exist_ok=True)
        (draft / name).write_bytes(data)
        statements.append(insert("files", path=name, sha256=digest(data), bytes=len(data)))
    ledger = Ledger.create(draft / LEDGER_FILE)
    ledger.write(statements)
    ledger.close()
    sync_tree(draft)
    return lock


def take_lock(path: Path, *, create: bool = True) -> IO[str]:
    """The lock lasts as long as the file is open: a killed process leaves none behind."""
    file = (path / LOCK_FILE).open("a+" if create else "r+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = file.read().strip()
        file.close()
        who = f"Another process (pid {owner})" if _is_alive(owner) else "Another process"
        raise PfedulError(f"{who} is at work on {path}; wait until it has ended.") from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a run folder within the block."""
    with own_errors(path):
        lock = take_lock(path)
    try:
        yield
    finally:
        lock.close()


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


def sync_tree(folder: Path) -> None:
    for root, _, files in os.walk(folder):
        for file in files:
            sync(Path(root) / file)
        sync(Path(root))


def sync(path: Path) -> None:
    """Make a file, or the entries of a folder, outlast a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def own_errors(path: Path) -> Iterator[None]:
    """The operating system's refusals, as sentences."""
    try:
        yield
    except PermissionError as error:
        raise Hindrance(f"No permission to write {error.filename or path}.") from None
    except OSError as error:
        raise Hindrance(
            f"Cannot write to {path}: {error.strerror}; nothing that was committed is lost."
        ) from None


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C within the block takes effect after it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: caught.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if caught:
            signal.raise_signal(signal.SIGINT)


def absolute(run: str | Path) -> Path:
    """A path that stays the same when the process changes its folder or a link its target."""
    return Path(run).resolve()
