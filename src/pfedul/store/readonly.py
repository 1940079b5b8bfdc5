"""A run that is only read: nothing in its folder is changed, and it need not be free.

The lock is not taken, so another process may commit meanwhile. Readers notice that by the number
of the last commit, and ask again. What an interrupted commit has not yet moved is read from where
it waits: its ledger transaction is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from pfedul.errors import PfedulError, TransientError
from pfedul.store import folder
from pfedul.store.paths import inside
from pfedul.store.store import Store

_ATTEMPTS = 5


class ReadOnlyStore(Store):
    """Owns a read-only connection to the ledger of a run."""

    def __init__(self, path: Path) -> None:
        self._unmoved: dict[str, str] = {}
        super().__init__(path, None)

    @staticmethod
    def open(path: Path) -> Store:
        """An existing run at its last whole commit."""
        folder.require_run(path)
        for attempt in range(1, _ATTEMPTS + 1):
            store = ReadOnlyStore(path)
            try:
                with store._unchanged():
                    store.verify()
            except BaseException as error:
                store.close()
                if isinstance(error, TransientError) and attempt < _ATTEMPTS:
                    continue
                raise
            return store
        raise AssertionError

    def _finish_commit(self) -> None:
        """Note which files a commit has not yet moved or removed."""
        pending = self.ledger.pairs("SELECT path, staged FROM pending")
        self._check_names([(staged, name) for name, staged in pending.items()])
        self._unmoved = {name: staged for name, staged in pending.items() if staged}
        self._removed = {name for name, staged in pending.items() if not staged}
        self._number = 1 + self._last_number()

    def _finish_settings(self) -> None:
        """A configuration that is not yet in its place is left to those who may write."""

    def locate(self, name: str) -> Path:
        """The file that `read` reads."""
        staged = inside(self.path, self._unmoved.get(name, name))
        return staged if staged.is_file() else inside(self.path, name)

    def check_unchanged(self) -> None:
        """Raise if another process has committed since this run was opened."""
        if self._last_number() != self.commits:
            raise TransientError(
                f"Another process changed {self.path} meanwhile; ask again when it has ended."
            )

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.check_unchanged()

    def require_writing(self) -> NoReturn:
        """Refuse: this run was opened to be read."""
        raise PfedulError(f"{self.path} was opened read-only; open it without that to change it.")

    def close(self) -> None:
        """End the connection."""
        self.ledger.close()
