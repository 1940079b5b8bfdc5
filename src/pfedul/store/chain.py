"""The chain of evidence: what happened, entry after entry, each signed by the operator.

Every entry holds the hash of the one before it, so none can be changed, taken out or put in
without changing all that follow. An entry is about a row of the ledger (or about all rows of a
table) and holds their salted SHA-256. The salt is deleted when a later entry is about the
same rows: what was erased from them cannot be guessed from the old hash. Entries themselves are
never erased, so they hold nothing about a client.
"""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pfedul.base.clock import now
from pfedul.base.hashes import digest
from pfedul.base.keys import is_signed, public_hex

CHAIN_TABLES = """
CREATE TABLE chain (
    entry INTEGER PRIMARY KEY, kind TEXT NOT NULL, at TEXT NOT NULL, about TEXT NOT NULL,
    body TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL, public_key TEXT NOT NULL,
    signature TEXT NOT NULL, salt TEXT);
CREATE TABLE admissions (
    admission INTEGER PRIMARY KEY, client TEXT NOT NULL, joined_round INTEGER NOT NULL,
    again INTEGER NOT NULL, at TEXT NOT NULL);
"""

KEYS = {
    "requests": ("request",),
    "audits": ("audit",),
    "admissions": ("admission",),
    "erasures": ("request", "target"),
    "meta": ("key",),
    "files": ("path",),
    "evaluations": ("round", "client"),
}
"""Tables that entries are about -> the columns of their primary key."""

STATE = "state"
STATE_TABLES = {
    "meta": ("key",),
    "clients": ("client",),
    "nodes": ("client",),
    "barred": ("node_key",),
    "preservation": ("request", "client"),
    "recalibrations": ("request", "client"),
    "audit_clients": ("audit", "client"),
}
"""Tables that a removal rewrites in part -> their primary keys. One entry is about all of them: its
salt goes with the next one, so it says nothing of what was erased."""

CREATED, UPGRADED, SETTINGS = "created", "upgraded", "settings"
EVALUATIONS = "evaluations"
"""An entry is about those of the last round: a removal says from them what was there before it."""

KEY_CHANGED, HANDED_OVER, ACCEPTED = "key changed", "handed over", "accepted"
COMMIT, REQUEST, AUDIT, ADMISSION = "commit", "request", "audit", "admission"
ERASURE, ERASED = "erasure at the client", "erased"
TRIAL = "trial"
"""Kinds of entries. `ERASED`: the row that an earlier entry is about was erased. `HANDED_OVER`:
another key may sign from now on. `ACCEPTED`: the operator goes on from a state that the operator's
key had not signed last. `TRIAL`: what follows was only tried, in a federation below a run."""

START = 64 * "0"
"""What stands in the place of the hash before the first entry."""


@dataclass(frozen=True)
class Attestation:
    """An entry to be added: about a row as it is when it is added (or is not there any more).

    An empty `key` stands for all rows of the table; without a table it is about nothing but
    `facts`, which are written in the clear and never erased.
    """

    kind: str
    table: str = ""
    key: tuple[int | str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def about(self) -> str:
        return canonical([self.table, *self.key]) if self.table else ""


@dataclass(frozen=True)
class Entry:
    """One entry of the chain. All but `hash`, `signature` and `salt` is what was signed."""

    entry: int
    kind: str
    at: str
    about: str
    body: str
    previous: str
    hash: str
    public_key: str
    signature: str
    salt: str | None

    @property
    def facts(self) -> dict[str, Any]:
        """What the entry says in the clear, and the hash of its rows (`sha256`)."""
        body: dict[str, Any] = json.loads(self.body)
        return body


def canonical(value: Any) -> str:
    """JSON in the one form that is hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


SETTINGS_ROW = ("meta", ("settings_sha256",))
"""The row with the hash of the settings that no later call may change."""


def settings_entry(file: bytes, kind: str = SETTINGS, **facts: Any) -> Attestation:
    """An entry about the configuration: its fixed part, and the file as a whole."""
    return Attestation(kind, *SETTINGS_ROW, {**facts, FILE_DIGEST: digest(file)})


FILE_DIGEST = "file_sha256"


def append(database: sqlite3.Connection, item: Attestation, key: Ed25519PrivateKey) -> None:
    """Add an entry, within the transaction that wrote the rows that it is about."""
    head, public = last_entry(database), public_hex(key)
    if head is not None and head.public_key != public and item.kind != KEY_CHANGED:
        append(database, Attestation(KEY_CHANGED, facts={"from": head.public_key}), key)
        head = last_entry(database)
    salt = secrets.token_hex(16) if item.table else None
    draft = Entry(
        entry=1 if head is None else head.entry + 1,
        kind=item.kind,
        at=now(),
        about=item.about,
        body=canonical(_body(database, item, salt)),
        previous=START if head is None else head.hash,
        hash="",
        public_key=public,
        signature="",
        salt=salt,
    )
    sha256 = _hash(draft)
    database.execute("UPDATE chain SET salt = NULL WHERE about = ?", (item.about,))
    _insert(database, replace(draft, hash=sha256, signature=key.sign(_message(sha256)).hex()))


def _body(database: sqlite3.Connection, item: Attestation, salt: str | None) -> dict[str, Any]:
    if salt is None:
        return dict(item.facts)
    return {**item.facts, "sha256": rows_digest(database, item.about, salt)}


def _insert(database: sqlite3.Connection, entry: Entry) -> None:
    row = asdict(entry)
    names, marks = ", ".join(row), ", ".join("?" for _ in row)
    database.execute(f"INSERT INTO chain ({names}) VALUES ({marks})", tuple(row.values()))


def last_entry(database: sqlite3.Connection) -> Entry | None:
    """The head of the chain; None where there is no chain yet."""
    row = database.execute("SELECT * FROM chain ORDER BY entry DESC LIMIT 1").fetchone()
    return None if row is None else Entry(**dict(row))


def rows_digest(database: sqlite3.Connection, about: str, salt: str) -> str | None:
    """The salted SHA-256 of the rows that an entry is about; None if there are none."""
    table, *key = json.loads(about)
    rows: Any
    if table == STATE:
        rows = {name: _rows(database, name, keys) for name, keys in STATE_TABLES.items()}
    else:
        rows = _rows(database, table, KEYS[table], key)
    return digest(f"{salt}{canonical(rows)}".encode()) if rows else None


def _rows(
    database: sqlite3.Connection, table: str, columns: Sequence[str], key: Sequence[Any] = ()
) -> list[dict[str, Any]]:
    every = "round = (SELECT MAX(round) FROM evaluations)" if table == EVALUATIONS else "1"
    where = " AND ".join(f"{name} = ?" for name in columns) if key else every
    sql = f"SELECT * FROM {table} WHERE {where} ORDER BY {', '.join(columns)}"
    return [dict(row) for row in database.execute(sql, tuple(key))]


def needed_by(sql: str) -> Attestation | None:
    """The entry about what a statement writes, where the statement does not bring its own.

    >>> needed_by("DELETE FROM clients WHERE client = ?").kind, needed_by("DELETE FROM files")
    ('state', None)
    """
    target = re.match(r"(?:INSERT(?: OR REPLACE)? INTO|DELETE FROM|UPDATE) (\w+)", sql)
    kind = STATE if target and target[1] in STATE_TABLES else target[1] if target else ""
    return Attestation(kind, kind) if kind in {STATE, EVALUATIONS} else None


def attested_rows(database: sqlite3.Connection) -> list[Attestation]:
    """The first entries of an upgraded ledger: one about each row that must have one."""
    rows = [Attestation(UPGRADED, "files"), Attestation(UPGRADED, *SETTINGS_ROW)]
    for table in ("requests", "audits", "erasures", "admissions"):
        columns = ", ".join(KEYS[table])
        keys = database.execute(f"SELECT {columns} FROM {table} ORDER BY {columns}")
        rows += [Attestation(UPGRADED, table, tuple(key)) for key in keys]
    return rows


def is_whole(entry: Entry, previous: str) -> bool:
    """Whether an entry holds what its hash says, and follows the entry with this hash."""
    return entry.previous == previous and entry.hash == _hash(entry)


def has_signature(entry: Entry) -> bool:
    """Whether the owner of the entry's key signed its hash."""
    return is_signed(entry.public_key, entry.signature, _message(entry.hash))


def _hash(entry: Entry) -> str:
    words = asdict(replace(entry, hash="", signature="", salt=None))
    return digest(canonical(words).encode())


def _message(sha256: str) -> bytes:
    """What is signed; the first words keep it apart from whatever else the key signs."""
    return f"pfedul chain entry {sha256}".encode()
