"""The run folder: tensors, ledger, atomic commits. See docs/run-folder.md.

A commit is all or nothing. New files are written under `staging/N`, made
durable, and then listed in the ledger in one transaction. Only after that do they
move to their public names. If the process is killed before the transaction, the run
opens at the previous commit; if it is killed after it, opening finishes the move.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from filelock import FileLock

from pfedul.base.hashes import digest, digest_file
from pfedul.base.interruption import uninterrupted
from pfedul.base.tensorfile import encode, read_file
from pfedul.base.tensors import Tensors
from pfedul.store import folder, paths
from pfedul.store.attested import (
    refuse_changed_files,
    refuse_changed_settings,
    refuse_differences,
    settings_file,
    signed_settings,
)
from pfedul.store.chain import COMMIT, SETTINGS, Attestation, settings_entry
from pfedul.store.ledger import Ledger, Statement, insert
from pfedul.store.marker import MARKER
from pfedul.store.memory import Memory
from pfedul.store.trust import refuse_distrust


class Store:
    """Owns an open run folder: its lock, its ledger and what waits to be committed."""

    def __init__(self, path: Path, lock: FileLock | None, memory: Memory | None = None) -> None:
        """Without a lock the folder is only read (readonly.py)."""
        self.path = path
        self._lock = lock
        self.ledger = Ledger(path / paths.LEDGER_FILE, read_only=lock is None, memory=memory)
        self._unit: set[str] = set()
        self._batch: dict[str, str] = {}
        self._removed: set[str] = set()
        self._rows: list[Statement] = []
        self._digests: dict[str, str] = {}
        self._last_commit: Statement | None = None
        self._number = 0
        self._publishing = False
        self._finish_commit()
        self._finish_settings()

    # Opening and creating

    @staticmethod
    def create(
        path: Path,
        settings: str,
        tensors: Mapping[str, Tensors],
        rows: Sequence[Statement],
        *,
        marked: bool = False,
    ) -> Store:
        """A new run folder. It appears under its name complete, or not at all.

        `marked`: it is below another run, and pfedul may delete it.
        """
        folder.refuse_unusable(path)
        with folder.own_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            folder.sweep_drafts(path)
            draft = path.parent / f".{path.name}.{secrets.token_hex(4)}"
            draft.mkdir()
            try:
                lock = folder.write_draft(draft, settings, tensors, rows)
                if not marked:
                    (draft / MARKER).unlink()
                lock = folder.claim(draft, path, lock)
            except BaseException:
                shutil.rmtree(draft, ignore_errors=True)
                raise
            folder.sync(path.parent)
        memory = None if marked else Memory(path)
        store = Store(path, lock, memory)
        store.ledger.remember(memory)
        return store

    @staticmethod
    def open(path: Path) -> Store:
        """An existing run, locked, at its last whole commit, if this user trusts it (trust.py)."""
        return Store._opened(path, Memory(path))

    @staticmethod
    def open_unremembered(path: Path) -> Store:
        """A copy, or a federation below another run: its key and its past do not matter."""
        return Store._opened(path, None)

    @staticmethod
    def _opened(path: Path, memory: Memory | None) -> Store:
        folder.require_run(path)
        with folder.own_errors(path):
            lock = folder.take_lock(path)
        try:
            with folder.own_errors(path):
                store = Store(path, lock, memory)
            store.verify()
            if memory is not None:
                refuse_distrust(path, store.ledger)
                refuse_changed_settings(path, store.ledger)
                store.ledger.remember(memory)
        except BaseException:
            lock.release()
            raise
        return store

    def _finish_commit(self) -> None:
        """Move the staged files that the ledger lists to their places; drop all others."""
        pending = self.ledger.pairs("SELECT path, staged FROM pending")
        moves = [(staged, path) for path, staged in pending.items()]
        self._check_names(moves)
        self._publish(moves)
        self._forget_removals(moves)
        self._number = 1 + self._last_number()

    def _last_number(self) -> int:
        return int(self.ledger.value("SELECT MAX(number) FROM commits") or 0)

    def _check_names(self, moves: Iterable[tuple[str, str]]) -> None:
        """Check all names before anything is moved: the ledger may come from somebody else."""
        for staged, name in moves:
            paths.check_move(staged, name)
        for name in self.ledger.column("SELECT path FROM files"):
            paths.check_file(name)

    def _publish(self, moves: Iterable[tuple[str, str]]) -> None:
        """Move staged files to their public names, durably, before staging is cleared.

        An empty place in staging stands for a file that is to be removed.
        """
        folders = set()
        for staged, name in moves:
            target = paths.inside(self.path, name)
            folders.add(target.parent)
            if staged:
                folder.with_durable_folders(self.path, name)
                with suppress(FileNotFoundError):  # moved already, before the process was killed
                    os.replace(paths.inside(self.path, staged), target)
            else:
                target.unlink(missing_ok=True)
        touched = {*folders, *(place.parent for place in folders)}
        for place in sorted(touched, key=lambda place: -len(place.parts)):
            folder.sync_or_remove(place, self.path)  # may leave the one above it empty
        shutil.rmtree(self.path / paths.STAGING, ignore_errors=True)

    def _forget_removals(self, moves: Sequence[tuple[str, str]]) -> None:
        """Clear finished deletions, which must not hit a later file of the same name."""
        if not all(staged for staged, _ in moves):
            self.ledger.write([("DELETE FROM pending WHERE staged = ''", ())])

    def verify(self) -> None:
        """Compare the ledger with its chain, and every tensor file with its hash; raises."""
        refuse_differences(self.path, self.ledger)
        refuse_changed_files(self.ledger, self.locate)

    # Reading

    @property
    def read_only(self) -> bool:
        return self._lock is None

    def require_writing(self) -> None:
        """Refuse to change a run that is closed, or was opened to be read."""
        self.ledger.require_open()

    def check_unchanged(self) -> None:
        """Raise if another process changed the run; under the lock none can."""

    def has(self, name: str) -> bool:
        """Whether there is a file of that name, committed or waiting to be."""
        return (name in self._batch or name not in self._removed) and self.locate(name).is_file()

    def read(self, name: str) -> Tensors:
        """The newest tensors of that name, including those of rounds not yet committed."""
        return read_file(self.locate(name))

    def find(self, name: str) -> Tensors | None:
        """The same; None if there is no file of that name."""
        return self.read(name) if self.has(name) else None

    def locate(self, name: str) -> Path:
        """The file that `read` reads."""
        return paths.inside(self.path, self._staged(name) if name in self._batch else name)

    def names(self, prefix: str) -> list[str]:
        """Names of the tensor files that begin with `prefix`, committed or waiting to be."""
        known = {*self.ledger.column("SELECT path FROM files"), *self._batch}
        return sorted(name for name in known if name.startswith(prefix) and self.has(name))

    @property
    def scratch(self) -> Path:
        """A temporary folder for the current unit of work; it is deleted when the unit ends."""
        return self.path / paths.STAGING / "unit" / "scratch"

    def state_digest(self) -> str:
        """SHA-256 over names and digests of shared and personal tensors, waiting ones included."""
        known = self.ledger.pairs("SELECT path, sha256 FROM files") | self._batch
        lines = [
            f"{name} {known[name]}\n"
            for name in sorted(known)
            if (name == paths.SHARED_FILE or name.startswith(f"{paths.CLIENTS}/"))
            and self.has(name)
        ]
        return digest("".join(lines).encode())

    def write_settings(self, text: str, rows: Sequence[Statement] = ()) -> None:
        """Replace the configuration atomically, with these rows."""
        draft = paths.inside(self.path, f"{paths.SETTINGS_FILE}.new")
        with folder.own_errors(self.path):
            draft.write_bytes(text.encode())
            folder.sync(draft)
            self.ledger.write([*rows, settings_entry(text.encode())])
            os.replace(draft, self.path / paths.SETTINGS_FILE)
            folder.sync(self.path)

    def _finish_settings(self) -> None:
        """Take over a configuration that is signed already; drop one that is not."""
        draft = paths.inside(self.path, f"{paths.SETTINGS_FILE}.new")
        if draft.is_file():
            with folder.own_errors(self.path):
                if digest_file(draft) == signed_settings(self.ledger):
                    os.replace(draft, self.path / paths.SETTINGS_FILE)
                draft.unlink(missing_ok=True)

    def sign_settings(self, kind: str = SETTINGS, *, confirmed: bool = False) -> None:
        """Sign a configuration that is not signed yet, or that the user has just confirmed."""
        data = settings_file(self.path).read_bytes()
        if confirmed or digest(data) != signed_settings(self.ledger):
            self.ledger.write([settings_entry(data, kind)])

    # Writing: a unit of work (a round, a removal), then whole units, then the commit

    def stage(self, name: str, tensors: Tensors) -> str:
        """Write a file for the current unit of work; returns its digest."""
        paths.check_file(name)
        data = encode(tensors)
        file = paths.inside(self.path, f"{paths.STAGING}/unit/{name}")
        with folder.own_errors(self.path):
            folder.with_folders(self.path, f"{paths.STAGING}/unit/{name}")
            file.write_bytes(data)
        self._unit.add(name)
        self._digests[name] = digest(data)
        return self._digests[name]

    def keep(self, rows: Sequence[Statement], removed: Iterable[str] = ()) -> None:
        """Complete the unit: its files, rows and removals belong to the next commit."""
        removed = set(removed)
        for name in removed:
            paths.check_move("", name)
        try:
            for name in self._unit:
                target = folder.with_folders(self.path, self._staged(name))
                os.replace(self.path / paths.STAGING / "unit" / name, target)
                self._batch[name] = self._digests[name]
        except BaseException:
            self.roll_back()  # a part of a unit must never be committed
            raise
        self._unit.clear()
        self._removed |= removed
        self._rows += rows

    def drop(self) -> None:
        """Discard the current unit; it will be done again from the same state."""
        shutil.rmtree(self.path / paths.STAGING / "unit", ignore_errors=True)
        self._unit.clear()

    def roll_back(self) -> None:
        """Discard everything that was not committed."""
        if self._publishing:  # it is committed, and the next opening finishes it
            return
        shutil.rmtree(self.path / paths.STAGING, ignore_errors=True)
        self._unit.clear()
        self._begin_batch()

    def commit(self) -> None:
        """Make all complete units durable at once."""
        if not self._rows and not self._batch and not self._removed:
            return
        started = time.perf_counter()
        with folder.own_errors(self.path), uninterrupted():
            folder.sync_tree(self.path / paths.STAGING)
            self._publishing = True
            moves = self._moves()
            self.ledger.write(self._commit_statements(moves))
            self._publish(moves)
            self._forget_removals(moves)
            self._publishing = False
            self._begin_batch()
            spent = time.perf_counter() - started
            self._last_commit = insert("commits", number=self._number, seconds=spent)
            self._number += 1

    def _begin_batch(self) -> None:
        self._batch, self._removed, self._rows = {}, set(), []

    def _moves(self) -> list[tuple[str, str]]:
        moves = [(self._staged(name), name) for name in self._batch]
        return moves + [("", name) for name in sorted(self._removed)]

    def _commit_statements(self, moves: Sequence[tuple[str, str]]) -> list[Statement]:
        statements: list[Statement] = [("DELETE FROM pending", ())]
        for staged, name in moves:
            statements += [insert("pending", staged=staged, path=name), self._file_statement(name)]
        # What a commit cost is known only after it, so the next one writes it down.
        number = insert("commits", number=self._number, seconds=None)
        cost = [] if self._last_commit is None else [self._last_commit]
        attested = Attestation(COMMIT, "files", facts={"commit": self._number})
        return [*statements, *self._rows, *cost, number, attested]

    def _file_statement(self, name: str) -> Statement:
        if name in self._removed:
            return "DELETE FROM files WHERE path = ?", (name,)
        size = (self.path / self._staged(name)).stat().st_size
        return insert("files", path=name, sha256=self._batch[name], bytes=size)

    def _staged(self, name: str) -> str:
        return f"{paths.STAGING}/{self._number}/{name}"

    @property
    def commits(self) -> int:
        """The number of the last commit."""
        return self._number - 1

    def close(self) -> None:
        """Release the folder; what was not committed is lost. A second call does nothing."""
        if self.ledger.closed:
            return
        if self._last_commit is not None:
            with suppress(Exception):
                self.ledger.write([self._last_commit])
        if not self._publishing:  # else the next opening finishes the commit from there
            shutil.rmtree(self.path / paths.STAGING, ignore_errors=True)
        self.ledger.close()
        if self._lock is not None:
            self._lock.release()
