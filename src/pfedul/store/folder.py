"""Run folders as files: claim, lock, sync, and errors of the operating system as sentences."""

from __future__ import annotations

import errno
import glob
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakKeyDictionary

import psutil
from filelock import FileLock, Timeout

from pfedul.base.hashes import digest
from pfedul.base.tensorfile import encode
from pfedul.base.tensors import Tensors
from pfedul.errors import OutOfMemory, PfedulError, TransientError
from pfedul.store import paths
from pfedul.store.chain import COMMIT, CREATED, Attestation, settings_entry
from pfedul.store.ledger import Ledger, Statement, insert
from pfedul.store.marker import is_marked, mark, remove
from pfedul.store.private import make_private
from pfedul.version import __version__

_WINDOWS = os.name == "nt"

_TAKEN: WeakKeyDictionary[FileLock, os.stat_result] = WeakKeyDictionary()
"""Locks that this process has taken, and their files, which may have been renamed since."""


def require_run(path: Path) -> None:
    """Refuse what is not a run folder."""
    if not path.exists():
        raise PfedulError(f"There is no run at {path}; create it with 'pfedul train {path}'.")
    if not path.is_dir():
        raise PfedulError(f"{path} is a file, not a run folder; give another path.")
    if not (path / paths.LEDGER_FILE).is_file():
        raise PfedulError(f"{path} is not a pfedul run folder (it has no {paths.LEDGER_FILE}).")
    paths.check_tree(path)


def refuse_unusable(path: Path) -> None:
    """Refuse a path at which no new run can be created."""
    if path.is_file():
        raise PfedulError(f"{path} is a file, not a run folder; give another path.")
    if path.is_dir() and {entry.name for entry in path.iterdir()} - _BEFORE_A_RUN:
        known = (path / paths.LEDGER_FILE).is_file()
        raise PfedulError(_HOLDS_A_RUN.format(path) if known else _NOT_EMPTY.format(path))
    paths.check_tree(path)
    if path == Path.cwd():
        raise PfedulError("A run needs a folder of its own; give the name of a new one.")


_BEFORE_A_RUN = {
    *(paths.DEPLOYMENT, paths.SETTINGS_FILE, paths.INIT_FILE),
    *(paths.SHARED_FILE, paths.LOCK_FILE, paths.CLIENTS),
}
"""A deployment, and leftovers of a process that was killed while it moved a new run next to it."""

_HOLDS_A_RUN = (
    "{} already holds a run; continue that (in Python with Federation.open), or give another path."
)

_NOT_EMPTY = "{} is not empty and not a run; give another path."


def claim(draft: Path, path: Path, lock: FileLock) -> FileLock:
    """Rename a complete draft to its final name, unless there is a run by now; returns the lock."""
    if _WINDOWS:  # no folder can be renamed there while a file in it is open
        lock.release()
    if (path / paths.DEPLOYMENT).is_dir():
        _move_next_to_deployment(draft, path)
    else:
        _rename(draft, path)
    return take_lock(path) if _WINDOWS else lock


def _rename(draft: Path, path: Path) -> None:
    try:
        draft.rename(path)
    except OSError as error:
        if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:
            raise
        raise PfedulError(_HOLDS_A_RUN.format(path)) from None


def _move_next_to_deployment(draft: Path, path: Path) -> None:
    """Entry by entry, the ledger last: without it the folder is not yet a run."""
    if (path / paths.LEDGER_FILE).exists():
        raise PfedulError(_HOLDS_A_RUN.format(path))
    # The lock late: `sweep_drafts` removes leftover drafts that have a lock file.
    last = [paths.LOCK_FILE, paths.LEDGER_FILE]
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
    """Remove leftovers of a process that was killed while it created this run."""
    for draft in path.parent.glob(f".{glob.escape(path.name)}.*"):
        with suppress(OSError, PfedulError):
            if is_marked(draft):
                take_lock(draft).release()
                remove(draft)


def write_draft(
    draft: Path, settings: str, tensors: Mapping[str, Tensors], rows: Sequence[Statement]
) -> FileLock:
    """Write a complete run folder under a temporary name; returns its lock."""
    mark(draft)
    lock = take_lock(draft)
    (draft / paths.SETTINGS_FILE).write_bytes(settings.encode())
    statements = list(rows)
    for name, content in tensors.items():
        data = encode(content)
        with_folders(draft, name).write_bytes(data)
        statements.append(insert("files", path=name, sha256=digest(data), bytes=len(data)))
    ledger = Ledger.create(draft / paths.LEDGER_FILE)
    created = settings_entry(settings.encode(), CREATED, pfedul=__version__)
    ledger.write([*statements, created, Attestation(COMMIT, "files", facts={"commit": 0})])
    ledger.close()
    sync_tree(draft)
    return lock


def take_lock(folder: Path) -> FileLock:
    """Lock a folder for this process, without waiting; a killed process leaves no lock behind."""
    file = paths.inside(folder, paths.LOCK_FILE)
    paths.check_one_name(file)
    lock = FileLock(
        file,
        blocking=False,
        thread_local=False,  # also released from another thread
        fallback_to_soft=False,
        preserve_lock_file=True,
        on_acquired=_write_pid,
    )
    try:
        lock.acquire()
    except Timeout:
        raise PfedulError(_in_use(folder, file)) from None
    _TAKEN[lock] = file.stat()
    return lock


def _write_pid(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())


def _in_use(folder: Path, file: Path) -> str:
    here = file.stat()
    if any(lock.is_locked and os.path.samestat(here, taken) for lock, taken in _TAKEN.items()):
        return (
            f"This process has {folder} open already; go on with that object, or close() it "
            "before you open the run again."
        )
    return f"{_owner(file)} is at work on {folder}; wait until it has ended."


def _owner(lock: Path) -> str:
    with suppress(OSError, ValueError):  # on Windows it cannot be read while it is locked
        pid = int(lock.read_text())
        if psutil.pid_exists(pid):
            return f"Another process (pid {pid})"
    return "Another process"


def process_at_work(run: Path) -> int | None:
    """The process that has the lock of a run; None if none of this user on this machine has it.

    The lock itself is not tried: that could turn away somebody who takes it at the same moment.
    """
    lock = paths.inside(run, paths.LOCK_FILE)
    with suppress(OSError, ValueError, OverflowError, psutil.Error):
        pid = int(lock.read_text())
        if str(lock.resolve()) in {file.path for file in psutil.Process(pid).open_files()}:
            return pid
    return None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a run folder within the block."""
    with own_errors(path):
        lock = take_lock(path)
    try:
        yield
    finally:
        lock.release()


def with_folders(run: Path, name: str) -> Path:
    """The path of a file below a run, with folders for it."""
    file = run / name
    make_private(file.parent)
    return file


def with_durable_folders(run: Path, name: str) -> Path:
    """The same; the folders survive a power cut, as what is moved into them must be found again."""
    missing = [folder for folder in (run / name).parents if not folder.is_dir()]
    file = with_folders(run, name)
    for folder in missing:
        sync(folder.parent)
    return file


def sync_tree(folder: Path) -> None:
    """Make a folder with all that is in it survive a power cut, its own entry included."""
    for root, _, files in os.walk(folder):
        for file in files:
            sync(Path(root) / file)
        sync(Path(root))
    sync(folder.parent)


def sync(path: Path) -> None:
    """Make a file, or the entries of a folder, survive a power cut; Windows syncs only files."""
    if _WINDOWS and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if _WINDOWS else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_or_remove(place: Path, run: Path) -> None:
    """Sync a folder of a run, or delete it if a removal left it empty."""
    if place.is_relative_to(run) and place.is_dir():
        if place != run and not any(place.iterdir()):
            place.rmdir()
            place = place.parent
        sync(place)


@contextmanager
def own_errors(path: Path) -> Iterator[None]:
    """Turn errors of the operating system, and a lack of memory, into errors with a sentence."""
    try:
        yield
    except MemoryError:
        raise OutOfMemory from None
    except PermissionError as error:
        raise TransientError(f"No permission to write {error.filename or path}.") from None
    except OSError as error:
        raise TransientError(
            f"Cannot write to {path}: {error.strerror}; nothing that was committed is lost."
        ) from None


def absolute(run: str | Path) -> Path:
    """The path with links resolved: it stays the same if the working folder or a link changes."""
    return Path(run).resolve()
