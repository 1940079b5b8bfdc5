"""What a run folder says of itself, read without touching it, even while it is trained."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pfedul.federation import read_settings
from pfedul.ledger import Ledger
from pfedul.store import INIT_FILE, LEDGER_FILE, SHARED_FILE, STAGING, require_run
from pfedul.unlearn.requests import Request, not_recalibrated, read_requests


def read_status(path: Path) -> dict[str, Any]:
    """Rounds, clients, accuracy over rounds, refused replies, cost and size: plain data."""
    require_run(path)
    settings = read_settings(path)
    ledger = Ledger(path / LEDGER_FILE, read_only=True)
    try:
        return {
            "run": str(path),
            "personalization": settings.personalization,
            "data": settings.data,
            "model": settings.model,
            "rounds": ledger.value("SELECT COUNT(*) FROM rounds"),
            "rounds_asked": settings.rounds,
            "clients": ledger.rows(
                "SELECT client, status, train_samples, test_samples, joined_round FROM clients "
                "ORDER BY client"
            ),
            "loss": ledger.rows("SELECT round, loss FROM rounds ORDER BY round"),
            "accuracy": _accuracy(ledger),
            "requests": [_request(item, ledger) for item in read_requests(ledger)],
            "refused": ledger.rows("SELECT * FROM refusals ORDER BY round, client"),
            "cost": _cost(ledger),
            "bytes": folder_size(path),
        }
    finally:
        ledger.close()


def _request(item: Request, ledger: Ledger) -> dict[str, Any]:
    return {
        "request": item.number,
        "targets": list(item.targets),
        "asked_at": item.asked_at,
        "status": item.status,
        "not_recalibrated": not_recalibrated(ledger, item),
    }


def _accuracy(ledger: Ledger) -> list[dict[str, Any]]:
    return ledger.rows(
        "SELECT round, AVG(accuracy) AS mean, MIN(accuracy) AS worst, COUNT(*) AS clients "
        "FROM evaluations GROUP BY round ORDER BY round"
    )


def _cost(ledger: Ledger) -> dict[str, float | None]:
    """Seconds spent in rounds and in committing them, as far as they were written down."""
    columns = "SUM(seconds) AS s, SUM(cpu_seconds) AS c, SUM(record_seconds) AS r"
    rounds, cpu, record = ledger.rows(f"SELECT {columns} FROM rounds")[0].values()
    commits = ledger.value("SELECT SUM(seconds) FROM commits") or 0.0
    return {
        "round_seconds": rounds or 0.0,
        "client_cpu_seconds": cpu or 0.0,
        "commit_seconds": commits,
        "commit_share": commits / (rounds + commits) if rounds else None,
        "record_seconds": record or 0.0,
        "record_share": record / rounds if rounds else None,
    }


def folder_size(path: Path) -> dict[str, int]:
    """Bytes of the run folder by part."""
    parts = dict.fromkeys(["shared", "initial", "personal", "records", "ledger", "other"], 0)
    for file in _files(path):
        with suppress(FileNotFoundError):  # moved by a commit while we look
            parts[_part(file.relative_to(path))] += file.stat().st_size
    return {**parts, "total": sum(parts.values())}


def _files(path: Path) -> Iterator[Path]:
    for folder, inner, names in os.walk(path):
        if STAGING in inner:
            inner.remove(STAGING)
        yield from (Path(folder) / name for name in names)


def _part(file: Path) -> str:
    names = {SHARED_FILE: "shared", INIT_FILE: "initial", LEDGER_FILE: "ledger"}
    folders = {"clients": "personal", "records": "records"}
    return names.get(str(file)) or folders.get(file.parts[0], "other")
