"""The server's database, freed of what it no longer counts.

Flower deletes a message once it was answered, but SQLite leaves the bytes of
deleted rows in free pages and in its write-ahead log: a forgotten client's
replies would stay readable there.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

BUSY_SECONDS = 10.0


def scrub(path: Path) -> bool:
    """Rewrite the database without deleted content; False where that cannot be done."""
    if not path.is_file():
        return True
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as database:
            database.execute("PRAGMA secure_delete = ON")
            database.execute("VACUUM")
            busy, *_ = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy
    except sqlite3.DatabaseError:  # somebody is at work on it, or it is damaged
        return False
