"""Run folders as somebody hostile, or a failing disk, might leave them; seeded."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import torch

from pfedul.base.hashes import digest
from pfedul.base.tensorfile import encode, read_file

Mutation = Callable[[random.Random, Path, Path], None]
"""Changes a run; the last path is a folder of the user's, outside the run."""


def mutate(seed: int, run: Path, home: Path) -> str:
    """Change a run in one to three ways; returns which, so a failure can be told."""
    draw = random.Random(seed)
    chosen = draw.choices(MUTATIONS, k=draw.choice([1, 1, 1, 2, 3]))
    for mutation in chosen:
        mutation(draw, run, home)
    return ", ".join(mutation.__name__ for mutation in chosen)


def _file(draw: random.Random, run: Path, pattern: str = "*") -> Path | None:
    files = sorted(f for f in run.rglob(pattern) if f.is_file() and not f.is_symlink())
    return draw.choice(files) if files else None


def _bytes(draw: random.Random, run: Path, _home: Path) -> None:
    """A few bytes of any file."""
    _garble(draw, _file(draw, run))


def _ledger_bytes(draw: random.Random, run: Path, _home: Path) -> None:
    """A few bytes of the ledger, which is most of what a command reads."""
    _garble(draw, run / "ledger.db")


def _garble(draw: random.Random, file: Path | None) -> None:
    if file is None or not file.is_file():
        return
    data = bytearray(file.read_bytes())
    for _ in range(draw.choice([1, 3, 30])):
        if data:
            data[draw.randrange(len(data))] = draw.randrange(256)
    cut = draw.choice([None, None, None, 0, len(data) // 2])
    file.write_bytes(data[:cut])


def _settings(draw: random.Random, run: Path, _home: Path) -> None:
    """A line of the configuration."""
    file = run / "federation.toml"
    if file.is_file():
        lines = file.read_text(errors="replace").splitlines() or [""]
        lines[draw.randrange(len(lines))] = draw.choice(LINES)
        file.write_text("\n".join(lines))


LINES = [
    *("", "[", 'data = "cifar10"', "rounds = -1", "rounds = 1e999", "lr = nan", "clients = 0"),
    *('model = "mlp:hidden=-1"', 'model = "mlp:hidden=9x9"', "seed = 99999999999999999999999"),
    *('data_root = "/etc"', 'record = "all"', "batch_size = 0", 'personalization = "none"'),
    *('data = "npz:file=/etc/passwd"', 'plant_backdoor = "x"', 'engine = "processes"', "a = 1"),
    *('device = "\\u001b[2J"', "clusters = 3", "participation = inf", "x = " + "[" * 3000),
]


def _value(draw: random.Random, run: Path, home: Path) -> None:
    """A value of any row of the ledger."""
    values = [value.format(home=home) if isinstance(value, str) else value for value in VALUES]
    with closing(sqlite3.connect(run / "ledger.db")) as database, database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master")]
        full = [t for t in tables if _count(database, t)]
        if full:
            table = draw.choice(full)
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            row = draw.randrange(_count(database, table))
            database.execute(
                f"UPDATE OR IGNORE {table} SET {draw.choice(columns)} = ? WHERE rowid = "
                f"(SELECT rowid FROM {table} LIMIT 1 OFFSET {row})",
                (draw.choice(values),),
            )


def _count(database: sqlite3.Connection, table: str) -> int:
    try:
        return int(database.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])
    except sqlite3.Error:
        return 0


VALUES = [
    *(None, -1, 0, 2**62, 0.5, float("inf"), -1e300, "", "x", b"\xff\x00", "../../home/thesis.txt"),
    *("{home}/thesis.txt", "\x1b]0;owned\x07", "null", "[]", "{{}}", '["c0", 1]', "[" * 5000),
    *(
        "NaN",
        '{{"options": {{}}}}',
        "done",
        "pending",
        "repairing",
        "nodes",
        "\ud800"[:0] + "ü" * 9,
    ),
    *("init.safetensors", "staging/1/shared.safetensors", "clients/x/personal.safetensors"),
]


def _json(draw: random.Random, run: Path, _home: Path) -> None:
    """A part of a JSON document of the ledger is missing, or another."""
    import json

    with closing(sqlite3.connect(run / "ledger.db")) as database, database:
        table, column = draw.choice(
            [("requests", "outcome"), ("requests", "options"), ("audits", "evidence")]
        )
        for number, text in list(database.execute(f"SELECT rowid, {column} FROM {table}")):
            try:
                data = json.loads(text)
            except (ValueError, TypeError):
                continue
            _change(draw, data)
            sql = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"
            database.execute(sql, (json.dumps(data), number))


def _change(draw: random.Random, data: object) -> None:
    """Somewhere in it, at any depth."""
    if not isinstance(data, dict | list) or not data:
        return
    key = draw.choice(list(data)) if isinstance(data, dict) else draw.randrange(len(data))
    if isinstance(data[key], dict | list) and data[key] and draw.random() < 0.7:
        _change(draw, data[key])
    elif draw.random() < 0.5:
        del data[key]
    else:
        data[key] = draw.choice([None, -1, 1e308, "\x1b[31m", "<b>x</b>", [], {}, True, ["x"]])


def _schema(draw: random.Random, run: Path, _home: Path) -> None:
    """Something in the ledger's schema."""
    with closing(sqlite3.connect(run / "ledger.db")) as database:
        try:
            database.executescript(draw.choice(SCRIPTS))
        except sqlite3.Error:
            database.rollback()


SCRIPTS = [
    "CREATE TRIGGER t AFTER DELETE ON clients BEGIN INSERT INTO meta VALUES (OLD.client, 1); END;",
    "DROP TABLE rounds; CREATE VIEW rounds AS WITH RECURSIVE n(round) AS (SELECT 1 UNION ALL "
    "SELECT round + 1 FROM n) SELECT * FROM n;",
    "DROP TABLE clients;",
    "DELETE FROM clients;",
    "DELETE FROM rounds;",
    "DELETE FROM meta;",
    "DELETE FROM files;",
    "DELETE FROM commits;",
    "CREATE TABLE more (x);",
    "ALTER TABLE meta ADD COLUMN x;",
    "PRAGMA journal_mode = WAL; DELETE FROM commits;",
    "PRAGMA user_version = 7; PRAGMA application_id = 9; VACUUM;",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = 'CREATE TABLE meta (x)';",
    "PRAGMA encoding = 'UTF-16'; PRAGMA page_size = 512; VACUUM;",
    "INSERT OR REPLACE INTO pending VALUES ('../../home/thesis.txt', '');",
    "INSERT OR REPLACE INTO pending VALUES ('shared.safetensors', 'staging/1/init.safetensors');",
    "INSERT OR REPLACE INTO pending VALUES ('shared.safetensors', '');",
    "INSERT OR REPLACE INTO meta VALUES ('clients_at', 'nodes');",
]


def _tensors(draw: random.Random, run: Path, _home: Path) -> None:
    """Other tensors in a file, with their hash in the ledger."""
    file = _file(draw, run, "*.safetensors")
    if file is None:
        return
    try:
        tensors = read_file(file)
    except Exception:
        return
    name = draw.choice(list(tensors) or ["none"])
    own = tensors.get(name, torch.zeros(1))
    tensors[name] = draw.choice(
        [
            *(own * float("nan"), own - float("inf"), own * 0, -own - 1, own.double(), own.long()),
            *(own.flatten()[:1], own.flatten(), torch.zeros(0), torch.zeros(3, 5), own.bool()),
            own + 1e30,
        ]
    )
    if draw.random() < 0.2:
        del tensors[name]
    if draw.random() < 0.2:
        tensors["\x1b[2J"] = torch.ones(1)
    data = encode(tensors)
    file.write_bytes(data)
    with closing(sqlite3.connect(run / "ledger.db")) as database:
        try:
            sql = "UPDATE files SET sha256 = ?, bytes = ? WHERE path = ?"
            path = file.relative_to(run).as_posix()
            database.execute(sql, (digest(data), len(data), path))
            database.commit()
        except sqlite3.Error:
            database.rollback()


def _entry(draw: random.Random, run: Path, home: Path) -> None:
    """A file or folder that is a link, of another kind, or missing."""
    names = [path.relative_to(run).as_posix() for path in sorted(run.rglob("*"))]
    name = draw.choice([*names, *NAMES])
    path, kind = run / name, draw.choice(["link", "file", "folder", "gone", "pipe"])
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if kind == "gone" or not path.parent.is_dir():
        return
    if kind == "link":
        path.symlink_to(home)
    elif kind == "folder":
        (path / "x").mkdir(parents=True)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(draw.randbytes(50))


NAMES = [
    *("lock", "ledger.db-journal", "ledger.db-wal", "staging", "oracles", "oracles/x", "rehearsal"),
    *("comparisons", "reports", "unlearning", "federation.toml.new", "deployment", "records"),
    *("certificates", "certificates/request-1.json", "comparisons/clients.json"),
]

MUTATIONS: list[Mutation] = [
    *(_bytes, _ledger_bytes, _ledger_bytes, _settings, _value, _value, _value, _json, _json),
    *(_schema, _tensors, _tensors, _entry, _entry),
]
