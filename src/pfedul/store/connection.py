"""How `ledger.db` is opened. The file may be damaged, or come from somebody else.

SQLite trusts what lies next to a database: a journal can name another file, which is deleted when
the journal is rolled back, and a write-ahead log is merged. So such files are looked at first.
Readers change nothing: if a killed process left a journal, they roll it back in a copy.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from pfedul.errors import PfedulError
from pfedul.store.paths import check_kind, check_one_name

_MAGIC = b"SQLite format 3\0"
_ROLLBACK_JOURNAL = b"\1\1"
"""Bytes 18 and 19 of a database that has no write-ahead log."""

_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")
"""A journal that names a further file ends with this. Only transactions over several databases
write one, and pfedul has none."""


def open_to_write(path: Path) -> sqlite3.Connection:
    """A connection whose commits are durable and whose deletions are overwritten."""
    _check_files(path)
    check_one_name(path)
    database = _connect(path, "rw")
    database.execute("PRAGMA journal_mode = DELETE")
    database.execute("PRAGMA synchronous = EXTRA")
    database.execute("PRAGMA secure_delete = ON")
    return database


def open_to_read(path: Path) -> sqlite3.Connection:
    """A connection that changes neither the file nor its folder."""
    _check_files(path)
    database = _connect(path, "ro")
    try:
        database.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        database.close()
        if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
            raise
        database = _rolled_back_copy(path)
    database.execute("PRAGMA query_only = ON")
    return database


def _rolled_back_copy(path: Path) -> sqlite3.Connection:
    """The ledger in memory as it was before the transaction that a kill interrupted."""
    memory = _harden(sqlite3.connect(":memory:", isolation_level=None))
    with tempfile.TemporaryDirectory(prefix="pfedul-ledger-") as folder:
        copy = Path(folder) / path.name
        for file in (path, _journal(path)):
            shutil.copyfile(file, Path(folder) / file.name)
        _check_files(copy)
        with closing(_connect(copy, "rw")) as database:
            database.backup(memory)
    return memory


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?mode={mode}"
    return _harden(sqlite3.connect(address, uri=True, timeout=30, isolation_level=None))


def _harden(database: sqlite3.Connection) -> sqlite3.Connection:
    """Settings that SQLite recommends for a file from somebody else."""
    database.row_factory = sqlite3.Row
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA cell_size_check = ON")
    if sys.version_info >= (3, 12):
        database.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
    return database


def _journal(path: Path) -> Path:
    return path.with_name(f"{path.name}-journal")


def _check_files(path: Path) -> None:
    """Refuse what is no database, one with a write-ahead log, and a journal that names a file."""
    for name in (path, _journal(path)):
        check_kind(str(name))
    with path.open("rb") as file:
        header = file.read(20)
    if header[:16] != _MAGIC:
        raise sqlite3.DatabaseError("file is not a database")
    if header[18:] != _ROLLBACK_JOURNAL:
        raise PfedulError(
            f"{path} has a write-ahead log, which pfedul never makes; end the program that uses "
            f"it, and turn that off with: sqlite3 {path} 'PRAGMA journal_mode = DELETE'"
        )
    refuse_naming_journal(path)


def refuse_naming_journal(path: Path) -> None:
    """Refuse a journal that names a further file: opening the database would delete that."""
    journal = _journal(path)
    if journal.is_file() and _end_of(journal) == _NAMES_ANOTHER:
        raise PfedulError(
            f"{journal} names another file, which pfedul's never do; nothing was touched: "
            "take this run only from somebody you trust, or restore it from a backup."
        )


def _end_of(file: Path) -> bytes:
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - len(_NAMES_ANOTHER)))
        return opened.read(len(_NAMES_ANOTHER))
