"""The ledger of a run: an SQLite file that says what happened.

Rows about one client name it in a column `client`, so they can be erased with it. Deleted content
is overwritten at once (`secure_delete`), and no write-ahead log remains after a commit.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from pfedul.base.keys import operator_key
from pfedul.errors import PfedulError, TransientError
from pfedul.store.chain import (
    CHAIN_TABLES,
    EVALUATIONS,
    STATE,
    UPGRADED,
    Attestation,
    append,
    attested_rows,
    last_entry,
    needed_by,
    rows_digest,
)
from pfedul.store.connection import open_to_read, open_to_write
from pfedul.store.memory import Memory
from pfedul.store.paths import INIT_FILE, inside
from pfedul.store.soundness import content_of, flaw, foreign_object

FORMAT = "4"
"""Version of the run folder. A newer one is refused, not half-read."""

_AUDIT_TABLES = """
CREATE TABLE audits (
    audit INTEGER PRIMARY KEY, kind TEXT NOT NULL, targets TEXT NOT NULL, made_at TEXT NOT NULL,
    evidence TEXT NOT NULL);
CREATE TABLE audit_clients (
    audit INTEGER NOT NULL, client TEXT NOT NULL, figures TEXT NOT NULL,
    PRIMARY KEY (audit, client));
"""

_UPGRADES = {"2": _AUDIT_TABLES + CHAIN_TABLES, "3": CHAIN_TABLES}
"""Tables that an older format lacks: added when such a ledger is opened for writing.

Readers see them as empty tables, but the file is not changed, so the version that
wrote it can still use it.
"""

SCHEMA = (
    _AUDIT_TABLES
    + CHAIN_TABLES
    + """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE clients (
    client TEXT PRIMARY KEY, train_samples INTEGER NOT NULL, test_samples INTEGER NOT NULL,
    data_sha256 TEXT NOT NULL, joined_round INTEGER NOT NULL,
    status TEXT NOT NULL DEFAULT 'active');
CREATE TABLE rounds (
    round INTEGER PRIMARY KEY, finished_at TEXT NOT NULL, replies INTEGER NOT NULL,
    samples INTEGER NOT NULL, loss REAL NOT NULL, seconds REAL NOT NULL,
    record_seconds REAL NOT NULL, cpu_seconds REAL NOT NULL, shared_sha256 TEXT NOT NULL,
    request INTEGER);
CREATE TABLE replies (
    round INTEGER NOT NULL, client TEXT NOT NULL, samples INTEGER NOT NULL, loss REAL NOT NULL,
    update_norm REAL NOT NULL, cpu_seconds REAL NOT NULL, PRIMARY KEY (round, client));
CREATE TABLE refusals (
    round INTEGER NOT NULL, client TEXT NOT NULL, reason TEXT NOT NULL, at TEXT NOT NULL,
    PRIMARY KEY (round, client, reason));
CREATE TABLE evaluations (
    round INTEGER NOT NULL, client TEXT NOT NULL, accuracy REAL NOT NULL, loss REAL NOT NULL,
    samples INTEGER NOT NULL, PRIMARY KEY (round, client));
CREATE TABLE requests (
    request INTEGER PRIMARY KEY, targets TEXT NOT NULL, options TEXT NOT NULL,
    asked_at TEXT NOT NULL, status TEXT NOT NULL, repaired INTEGER NOT NULL DEFAULT 0,
    outcome TEXT);
CREATE TABLE preservation (
    request INTEGER NOT NULL, client TEXT NOT NULL, accuracy_before REAL NOT NULL,
    accuracy_after REAL NOT NULL, PRIMARY KEY (request, client));
CREATE TABLE recalibrations (
    request INTEGER NOT NULL, client TEXT NOT NULL, done_at TEXT,
    PRIMARY KEY (request, client));
CREATE TABLE nodes (
    client TEXT PRIMARY KEY, node_key TEXT NOT NULL UNIQUE, bound_at TEXT NOT NULL);
CREATE TABLE barred (node_key TEXT PRIMARY KEY, request INTEGER NOT NULL);
CREATE TABLE strangers (
    node_key TEXT NOT NULL, claim TEXT NOT NULL, reason TEXT NOT NULL, at TEXT NOT NULL,
    PRIMARY KEY (node_key, claim));
CREATE TABLE erasures (
    request INTEGER NOT NULL, target TEXT NOT NULL, node_key TEXT NOT NULL, asked_at TEXT NOT NULL,
    confirmed_at TEXT, receipt TEXT, PRIMARY KEY (request, target));
CREATE TABLE traffic (
    id INTEGER PRIMARY KEY, action TEXT NOT NULL, number INTEGER NOT NULL, clients INTEGER NOT NULL,
    messages_out INTEGER NOT NULL, bytes_out INTEGER NOT NULL, messages_in INTEGER NOT NULL,
    bytes_in INTEGER NOT NULL, at TEXT NOT NULL);
CREATE TABLE actions (
    id INTEGER PRIMARY KEY, action TEXT NOT NULL, started_at TEXT NOT NULL, finished_at TEXT,
    result TEXT);
CREATE TABLE commits (number INTEGER PRIMARY KEY, seconds REAL);
CREATE TABLE files (path TEXT PRIMARY KEY, sha256 TEXT NOT NULL, bytes INTEGER NOT NULL);
CREATE TABLE pending (path TEXT PRIMARY KEY, staged TEXT NOT NULL);
"""
)

Statement = tuple[str, tuple[Any, ...]] | Attestation
"""SQL with its values, or an entry for the chain about the rows as they are by then."""


def insert(table: str, **values: Any) -> Statement:
    """A statement that writes one row, replacing the row with the same key.

    >>> insert("meta", key="format", value="1")
    ('INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)', ('format', '1'))
    """
    marks = ", ".join("?" for _ in values)
    sql = f"INSERT OR REPLACE INTO {table} ({', '.join(values)}) VALUES ({marks})"
    return sql, tuple(values.values())


class Ledger:
    """Owns the connection to `ledger.db`."""

    def __init__(
        self, path: Path, *, read_only: bool = False, memory: Memory | None = None
    ) -> None:
        """`memory` remembers what is signed; without it nothing is. `older`: its format was."""
        self.path = inside(path.parent, path.name)
        self._memory = memory
        try:
            self._open: sqlite3.Connection | None = (
                open_to_read(path) if read_only else open_to_write(path)
            )
            try:
                self._begin(read_only)
            except BaseException:
                self.close()
                raise
        except (sqlite3.Error, OSError, ValueError) as error:
            raise PfedulError(f"{path} is not a readable pfedul ledger ({error}).") from None

    def _begin(self, read_only: bool) -> None:
        """Check the content before anything is done with it, and upgrade an older format."""
        self._refuse(foreign_object(self._db), "it has {!r}, which is no table")
        number = self.meta("format") or ""
        if number not in {FORMAT, *_UPGRADES}:
            raise PfedulError(
                f"{self.path} has format {number}, but this pfedul reads format {FORMAT}; "
                "install the version that wrote it."
            )
        self._refuse(flaw(self._db, SCHEMA, missing=_UPGRADES.get(number, "")))
        self.older = number != FORMAT
        if self.older and not read_only:
            self._refuse_unsigned()
            _upgrade(self._db)
        elif self.older:
            _seem_upgraded(self._db, number)

    def _refuse_unsigned(self) -> None:
        """Refuse to sign what a version without a chain wrote, or what lost its chain."""
        if self._memory is not None:
            raise PfedulError(self._memory.unsigned(self._initial))

    def _refuse(self, flaw: str | None, words: str = "{}") -> None:
        if flaw is not None:
            raise PfedulError(
                f"{self.path} is not as pfedul writes it ({words.format(flaw)}); nothing was "
                "touched: take this run only from somebody you trust, or restore it from a backup."
            )

    @staticmethod
    def create(path: Path) -> Ledger:
        """A new, empty ledger."""
        try:
            with closing(sqlite3.connect(path)) as database, database:
                database.executescript(SCHEMA)
                _execute(database, [insert("meta", key="format", value=FORMAT)])
        except sqlite3.OperationalError as error:
            raise TransientError(f"The ledger {path} cannot be created ({error}).") from None
        return Ledger(path)

    def write(self, statements: Iterable[Statement]) -> None:
        """Execute all of the statements, durably, or none of them."""
        statements = list(statements)
        needed = (needed_by(item[0]) for item in statements if isinstance(item, tuple))
        statements += {item.kind: item for item in needed if item is not None}.values()
        self._write(statements)
        if any(isinstance(statement, Attestation) for statement in statements):
            self.remember(self._memory)

    def remember(self, memory: Memory | None) -> None:
        """Remember the head of the chain as what was signed last."""
        head = last_entry(self._db)
        if memory is not None and head is not None:
            memory.note(self.first_hash, head, self._initial)

    @property
    def _initial(self) -> str:
        """The hash of the initial tensors, which copies of a run have in common."""
        return str(self.value("SELECT sha256 FROM files WHERE path = ?", INIT_FILE))

    @property
    def first_hash(self) -> str:
        """The hash of the first entry of the chain, which stands for the run and its copies."""
        return str(self.value("SELECT hash FROM chain WHERE entry = 1"))

    def _write(self, statements: Iterable[Statement]) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            _execute(self._db, statements)
            self._db.execute("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                raise TransientError(
                    f"The ledger {self.path} cannot be written ({error}); "
                    "nothing that was committed is lost."
                ) from None
            raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Within the block all queries see one commit; another process's next commit waits."""
        if self._db.in_transaction:  # a block within such a block
            yield
            return
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")

    def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        """What a query finds, as plain dictionaries."""
        return [dict(row) for row in self._query(sql, values)]

    def column(self, sql: str, *values: Any) -> list[Any]:
        """The first column of all rows."""
        return [row[0] for row in self._query(sql, values)]

    def pairs(self, sql: str, *values: Any) -> dict[Any, Any]:
        """The first column -> the second."""
        return {row[0]: row[1] for row in self._query(sql, values)}

    def value(self, sql: str, *values: Any) -> Any:
        """The first column of the first row; None if there is no row."""
        return next((row[0] for row in self._query(sql, values)), None)

    def _query(self, sql: str, values: tuple[Any, ...]) -> list[sqlite3.Row]:
        with content_of(self.path):
            return self._db.execute(sql, values).fetchall()

    def meta(self, key: str) -> str | None:
        """A fact about the run as a whole."""
        found: str | None = self.value("SELECT value FROM meta WHERE key = ?", key)
        return found

    def rows_digest(self, about: str, salt: str) -> str | None:
        """See `chain.rows_digest`."""
        with content_of(self.path):
            return rows_digest(self._db, about, salt)

    def attested_rows(self) -> list[str]:
        """All rows, in the form of `Entry.about`, that an entry of the chain must be about."""
        with content_of(self.path):
            return [item.about for item in attested_rows(self._db)]

    @property
    def closed(self) -> bool:
        return self._open is None

    @property
    def _db(self) -> sqlite3.Connection:
        self.require_open()
        assert self._open is not None
        return self._open

    def require_open(self) -> None:
        """Refuse to go on with a run that was closed."""
        if self._open is None:
            raise PfedulError(f"{self.path.parent} is closed; open it again to go on with it.")

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def _execute(database: sqlite3.Connection, statements: Iterable[Statement]) -> None:
    for statement in statements:
        if isinstance(statement, Attestation):
            append(database, statement, operator_key())
        else:
            database.execute(*statement)


def _upgrade(database: sqlite3.Connection) -> None:
    """Upgrade a ledger of an older format to this one, in one transaction."""
    database.execute("BEGIN IMMEDIATE")
    number = _format(database)  # within the transaction nobody else can change it
    for statement in _statements(_UPGRADES.get(number, "")):
        database.execute(statement)
    _execute(database, [insert("meta", key="format", value=FORMAT)])
    if number in _UPGRADES:
        # The name is random: the first hash stands for the run, so no two may be equal.
        first = Attestation(UPGRADED, facts={"from": number, "run": secrets.token_hex(16)})
        last = [Attestation(UPGRADED, table) for table in (EVALUATIONS, STATE)]
        _execute(database, [first, *attested_rows(database), *last])
    database.execute("COMMIT")


def _seem_upgraded(database: sqlite3.Connection, number: str) -> None:
    """Add the tables that an older ledger lacks, in memory only."""
    database.execute("PRAGMA query_only = OFF")
    database.execute("PRAGMA temp_store = MEMORY")
    for statement in _statements(_UPGRADES[number]):
        database.execute(statement.replace("CREATE TABLE", "CREATE TEMP TABLE"))
    database.execute("PRAGMA query_only = ON")


def _format(database: sqlite3.Connection) -> str:
    row = database.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
    return "" if row is None else str(row["value"])


def _statements(script: str) -> list[str]:
    return [part.strip() for part in script.split(";") if part.strip()]
