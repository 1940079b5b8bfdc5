"""What a run folder says of itself, read without touching it, even while it is trained."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from pfedul.base.tensorfile import read_file
from pfedul.records import RECORDS, record_names
from pfedul.records.base import Extent, kind_of
from pfedul.settings import Settings, read_settings
from pfedul.store.audits import Audit, read_audits
from pfedul.store.folder import require_run
from pfedul.store.ledger import Ledger
from pfedul.store.paths import (
    AT_NODES,
    CLIENTS,
    COMPARISONS,
    DEPLOYMENT,
    INIT_FILE,
    LEDGER_FILE,
    ORACLES,
    REHEARSAL,
    REPORTS,
    SHARED_FILE,
    STAGING,
    UNLEARNING,
)
from pfedul.store.requests import (
    PRESERVED,
    Request,
    erased_at_client,
    not_recalibrated,
    read_requests,
)


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
            "accuracy_now": _accuracy_now(ledger),
            "requests": [_request(item, ledger) for item in read_requests(ledger)],
            "audits": [_audit(item) for item in read_audits(ledger)],
            "refused": ledger.rows("SELECT * FROM refusals ORDER BY round, client"),
            **_nodes(ledger, path),
            "cost": _cost(ledger),
            "bytes": folder_size(path),
            "records": _records(path, settings, ledger),
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
        "erased_at_client": erased_at_client(ledger, item),
    }


def _audit(item: Audit) -> dict[str, Any]:
    return {
        "audit": item.number,
        "kind": item.kind,
        "targets": list(item.targets),
        "made_at": item.made_at,
        "verdict": item.evidence["verdict"]["verdict"],
    }


def _nodes(ledger: Ledger, path: Path) -> dict[str, Any]:
    """What there is to say of clients on machines of their own; nothing of others."""
    if ledger.meta("clients_at") != AT_NODES:
        return {}
    return {
        "nodes": ledger.rows("SELECT client, node_key, bound_at FROM nodes ORDER BY client"),
        "strangers": ledger.rows("SELECT * FROM strangers ORDER BY at"),
        "actions": ledger.rows("SELECT * FROM actions ORDER BY id"),
        "traffic": _traffic(ledger, path),
    }


def _traffic(ledger: Ledger, path: Path) -> list[dict[str, Any]]:
    """By action: messages for each client asked, bytes of one in units of the shared tensors."""
    sums = ", ".join(f"SUM({name}) AS {name}" for name in _COUNTED)
    sql = f"SELECT action, COUNT(*) AS tasks, SUM(clients) AS clients, {sums} FROM traffic"
    size = (path / SHARED_FILE).stat().st_size
    found = []
    for row in ledger.rows(f"{sql} GROUP BY action ORDER BY action"):
        out, back = row["messages_out"] or 1, row["messages_in"] or 1
        found.append(
            {
                **row,
                "messages_per_client": row["messages_out"] / row["clients"],
                "out_to_shared": row["bytes_out"] / out / size,
                "in_to_shared": row["bytes_in"] / back / size,
            }
        )
    return found


_COUNTED = ("messages_out", "bytes_out", "messages_in", "bytes_in")


def _accuracy(ledger: Ledger) -> list[dict[str, Any]]:
    return ledger.rows(
        "SELECT round, AVG(accuracy) AS mean, MIN(accuracy) AS worst, COUNT(*) AS clients "
        "FROM evaluations GROUP BY round ORDER BY round"
    )


def _accuracy_now(ledger: Ledger) -> dict[str, Any] | None:
    """Of the tensors as they are: from an evaluation or the last removal; None if not known."""
    last = ledger.value("SELECT MAX(number) FROM commits")
    for source, key, sql in _KNOWN_FROM:
        if last is not None and ledger.meta(key) == str(last):
            found = ledger.rows(f"SELECT {_FIGURES.format(*sql)}")[0]
            return {**found, "source": source} if found["clients"] else None
    return None


_FIGURES = "AVG({0}) AS mean, MIN({0}) AS worst, COUNT(*) AS clients FROM {1} WHERE {2}"
_KNOWN_FROM = (
    (
        *("evaluation", "evaluated_commit"),
        ("accuracy", "evaluations", "round = (SELECT MAX(round) FROM evaluations)"),
    ),
    (
        *("removal", PRESERVED),
        ("accuracy_after", "preservation", "request = (SELECT MAX(request) FROM requests)"),
    ),
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


def _records(path: Path, settings: Settings, ledger: Ledger) -> dict[str, dict[str, int]]:
    """Of each record that the run keeps: bytes now, and about how many when it is trained."""
    shared = read_file(path / SHARED_FILE).values()
    clients = ledger.value("SELECT COUNT(*) FROM clients WHERE status = 'active'")
    extent = Extent(clients, sum(map(Tensor.numel, shared)), len(shared), settings.rounds)
    found = {
        name: {"bytes": 0, "expected": RECORDS[name].size(extent)}
        for name in record_names(settings.record)
    }
    for file in (path / "records").rglob("*.safetensors"):
        with suppress(FileNotFoundError):  # moved by a commit while we look
            kind, size = kind_of(file.relative_to(path).as_posix()), file.stat().st_size
            row = found.setdefault(kind, {"bytes": 0, "expected": 0})
            row["bytes"] += size
            row["expected"] += 0 if kind in RECORDED else size  # of clusters: none is foreseen
    return found


RECORDED = {record.name for record in RECORDS}


def folder_size(path: Path) -> dict[str, int]:
    """Bytes of the run folder by part."""
    names = ["shared", "initial", "personal", "records", "ledger", "oracles", "rehearsal"]
    names += ["comparisons", "reports", "unlearning", "deployment", "other"]
    parts = dict.fromkeys(names, 0)
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
    folders = {CLIENTS: "personal", "records": "records", DEPLOYMENT: "deployment"}
    folders |= {ORACLES: "oracles", REHEARSAL: "rehearsal", REPORTS: "reports"}
    folders |= {UNLEARNING: "unlearning", COMPARISONS: "comparisons"}
    return names.get(str(file)) or folders.get(file.parts[0], "other")
