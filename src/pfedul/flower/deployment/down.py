"""Ends what `up` has started, and nothing else; then frees the database of deleted messages."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pfedul.flower.deployment.gone import remove_gone
from pfedul.flower.deployment.layout import SUPERLINK, alone, existing_layout
from pfedul.flower.deployment.processes import Process, end, read_record
from pfedul.store.connection import refuse_naming_journal


@dataclass(frozen=True)
class Ended:
    """The processes on record that ran until now, and the pids of all that were ended.

    `scrubbed` says that the server's database holds no deleted messages any more.
    """

    processes: tuple[Process, ...]
    pids: tuple[int, ...]
    scrubbed: bool


def bring_down(run: Path) -> Ended:
    """End the nodes, then the server, and all that they have started; remove forgotten nodes.

    Nodes go first, so they can still tell the server that they leave.
    """
    layout = existing_layout(run)
    with alone(layout):
        record = read_record(layout)
        assert record is not None  # an existing layout has one
        running = tuple(record.running())
        nodes = [item for item in record.processes if item.name != SUPERLINK]
        ended = end(nodes, [record.mark(item.name) for item in nodes])
        ended += end(running, [f"{record.token}/"])
        scrubbed = scrub(layout.database)
        remove_gone(layout)
    return Ended(running, tuple(identity.pid for identity in ended), scrubbed)


BUSY_SECONDS = 10.0

_HAS_LOGS = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'task_logs'"


def scrub(path: Path, logs: bool = False) -> bool:
    """Rewrite the database without deleted content; False where that cannot be done.

    `logs`: without what actions have logged so far, too.
    """
    if not path.is_file():
        return True
    refuse_naming_journal(path)
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as database:
            database.execute("PRAGMA secure_delete = ON")
            if logs and database.execute(_HAS_LOGS).fetchone():
                database.execute("DELETE FROM task_logs")
            database.execute("VACUUM")
            busy, *_ = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy
    except sqlite3.DatabaseError:  # somebody is at work on it, or it is damaged
        return False
