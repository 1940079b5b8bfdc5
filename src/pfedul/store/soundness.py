"""Whether the content of a ledger is what pfedul writes: its tables, its pages, its types.

A ledger may be damaged, or made by somebody else. A trigger would keep what a removal erases, a
view can compute for ever, and a text where a number belongs fails wherever it is used.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from pfedul.errors import PfedulError, TransientError

_FOREIGN = (
    "SELECT name FROM sqlite_master WHERE NOT (type = 'table' AND upper(sql) LIKE 'CREATE TABLE %'"
    " OR type = 'index' AND sql IS NULL)"
)
_TYPES = {"INTEGER": "'integer'", "REAL": "'real', 'integer'", "TEXT": "'text'"}

Tables = Mapping[str, str]
"""The name of a table -> the statement that makes it."""


def foreign_object(database: sqlite3.Connection) -> str | None:
    """The name of a trigger, a view or whatever else is no plain table; None if there is none."""
    row = database.execute(_FOREIGN).fetchone()
    return None if row is None else str(row[0])


def tables_of(database: sqlite3.Connection) -> dict[str, str]:
    """The tables of a database."""
    rows = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    return {str(name): str(sql) for name, sql in rows}


@cache
def tables_made_by(script: str) -> Tables:
    """The tables that a script makes."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(script)
        return tables_of(database)


def flaw(database: sqlite3.Connection, script: str, missing: str = "") -> str | None:
    """What is wrong with a ledger; None if nothing is.

    `script` makes the tables of the newest format, and `missing` those of them that it lacks.
    """
    expected = {n: s for n, s in tables_made_by(script).items() if n not in tables_made_by(missing)}
    actual = tables_of(database)
    for name in sorted(actual.keys() | expected.keys()):
        if actual.get(name) != expected.get(name):
            return f"its table {name!r} is not one of this format"
    (state,) = database.execute("PRAGMA integrity_check(1)").fetchone()
    if state != "ok":
        return f"SQLite reports: {state}"
    wrong = next((name for name in expected if _has_wrong_type(database, name)), None)
    return None if wrong is None else f"its table {wrong!r} has a value of a wrong type"


def _has_wrong_type(database: sqlite3.Connection, table: str) -> bool:
    """SQLite takes any value in any column."""
    tests = []
    for column in database.execute(f"PRAGMA table_info({table})"):
        nothing = "" if column["notnull"] else ", 'null'"
        tests.append(f"typeof({column['name']}) NOT IN ({_TYPES[column['type']]}{nothing})")
    sql = f"SELECT 1 FROM {table} WHERE {' OR '.join(tests)} LIMIT 1"
    return database.execute(sql).fetchone() is not None


def json_object(text: str) -> dict[str, Any]:
    """A JSON document of the ledger; raises where it is none, or no object."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise TypeError(f"an object was expected, not {text[:20]}")
    return value


@contextmanager
def content_of(path: Path) -> Iterator[None]:
    """Turn what wrong content, or a failing disk, makes fail within the block into one sentence."""
    try:
        yield
    except _WRONG_CONTENT as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _OF_THE_SYSTEM:
            raise TransientError(
                f"The ledger {path} cannot be read ({error}); nothing that was committed is lost."
            ) from None
        raise PfedulError(
            f"{path} has content that pfedul did not write ({type(error).__name__}: {error}); "
            "restore it from a backup."
        ) from error


_OF_THE_SYSTEM = {
    *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN),
    *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_NOMEM),
}
"""Primary codes of errors that say nothing about the content."""

_WRONG_CONTENT = (
    *(sqlite3.Error, ValueError, LookupError, TypeError, AttributeError),
    *(ArithmeticError, RecursionError),
)
