"""What a run folder says about itself, read without changing it, even while it is trained."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from pfedul.aggregation.accountant import epsilon
from pfedul.base.keys import fingerprint, own_public_key
from pfedul.base.result import Result
from pfedul.base.tensorfile import read_file
from pfedul.base.text import human_bytes
from pfedul.records import RECORDS, record_names
from pfedul.records.base import Extent, kind_of
from pfedul.settings import Settings, read_settings
from pfedul.store import paths
from pfedul.store import status_tables as tables
from pfedul.store.attested import read_chain
from pfedul.store.audits import Audit, read_audits
from pfedul.store.folder import require_run
from pfedul.store.ledger import Ledger
from pfedul.store.requests import (
    PENDING,
    Request,
    erased_at_client,
    not_recalibrated,
    read_requests,
)
from pfedul.store.tables import last_round, read_members
from pfedul.store.trust import contradictions


@dataclass(frozen=True, repr=False)
class Status(Result):
    """What a run folder says about itself; `data` is all of it (docs/json.md)."""

    data: Mapping[str, Any]

    def _facts(self) -> dict[str, Any]:
        data = self.data
        now = data["accuracy_now"] or {}
        pending = [r["request"] for r in data["requests"] if r["status"] == PENDING]
        return {
            "run": data["run"],
            "rounds": data["rounds"],
            "clients": len([row for row in self._rows() if row["status"] == "active"]),
            "personalization": data["personalization"],
            "data": data["data"],
            "model": data["model"],
            "accuracy": now.get("mean"),
            "lowest": now.get("worst"),
            "removals": len(data["requests"]),
            "pending": pending or None,
            "audits": len(data["audits"]),
            "refused": len(data["refused"]),
            "wrong": (data["chain"] or {}).get("wrong") or None,
            "size": human_bytes(data["bytes"]["total"]),
        }

    def _rows(self) -> list[dict[str, Any]]:
        return list(self.data["clients"])


def read_status(path: Path) -> dict[str, Any]:
    """Rounds, clients, accuracy over rounds, refused replies, cost and size, as plain data."""
    require_run(path)
    settings = read_settings(path)
    with closing(Ledger(path / paths.LEDGER_FILE, read_only=True)) as ledger, ledger.snapshot():
        content = _content(path, settings, ledger)
        clients = len(read_members(ledger))
    return {
        **content,
        "bytes": folder_size(path),
        "records": _records(path, settings, clients),
    }


def _content(path: Path, settings: Settings, ledger: Ledger) -> dict[str, Any]:
    """What settings and ledger say."""
    loss = tables.loss_rows(ledger)
    return {
        "run": str(path),
        "personalization": settings.personalization,
        "data": settings.data,
        "task": settings.task,
        "figure": settings.training.task.figure,
        "model": settings.model,
        "rounds": len(loss),
        "rounds_asked": settings.rounds,
        "clients": tables.client_rows(ledger),
        "loss": loss,
        "accuracy": tables.accuracy_rows(ledger),
        "accuracy_now": tables.current_accuracy(ledger),
        "requests": [_request(request, ledger) for request in read_requests(ledger)],
        "audits": [_audit(audit) for audit in read_audits(ledger)],
        "chain": _chain(path, ledger),
        "refused": tables.refusals(ledger),
        "privacy": _privacy(settings, last_round(ledger)),
        **_nodes(ledger, path),
        "cost": tables.time_spent(ledger),
    }


def _privacy(settings: Settings, rounds: int) -> dict[str, Any] | None:
    """Differential privacy of the rounds so far; None for a run without it.

    Epsilon is null where the accountant is not installed.
    """
    if settings.dp_clip is None:
        return None
    noise, rate, delta = settings.dp_noise, settings.participation, settings.dp_delta
    return {
        "epsilon": epsilon(noise, rate, rounds, delta) if rounds else 0.0,
        "delta": delta,
        "rounds": rounds,
        "clip": settings.dp_clip,
        "noise": noise,
        "rate": rate,
    }


def privacy_words(privacy: Mapping[str, Any]) -> str:
    """Epsilon, what it is about, and what it is not about."""
    size = privacy["epsilon"]
    words = (
        "epsilon not known (pip install 'pfedul[dp]')" if size is None else f"epsilon {size:.3g}"
    )
    return (
        f"{words} at delta {privacy['delta']:g}, for the shared tensors of {privacy['rounds']} "
        f"rounds (clip {privacy['clip']:g}, noise {privacy['noise']:g}, each client with "
        f"probability {privacy['rate']:g}). {NOT_PRIVATE}"
    )


NOT_PRIVATE = (
    "Not covered: personal parts, records and updates as the server has them, numbers of samples, "
    "evaluations, and removals, whose correction, repair and recalibration have no noise."
)


def _request(item: Request, ledger: Ledger) -> dict[str, Any]:
    return {
        "request": item.number,
        "targets": list(item.targets),
        "asked_at": item.asked_at,
        "status": item.status,
        "finished_at": (item.outcome or item.ending or {}).get("finished_at"),
        "asked": item.asked,
        "ending": item.ending,
        "not_recalibrated": not_recalibrated(ledger, item),
        "erased_at_client": erased_at_client(ledger, item),
        "audit": _own_audit(item.outcome),
    }


def _chain(path: Path, ledger: Ledger) -> dict[str, Any] | None:
    """The head of the chain of evidence, who signed it, and what is not as it was signed."""
    chain, wrong = read_chain(ledger), contradictions(path, ledger)
    if not chain and not wrong:
        return None
    return {
        "entries": len(chain),
        "head": chain[-1].hash if chain else "",
        "signer": fingerprint(chain[-1].public_key) if chain else "",
        "own": bool(chain) and chain[-1].public_key == own_public_key(),
        "wrong": wrong,
    }


def _own_audit(outcome: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What a removal measured of its own forgetting, in short."""
    found = (outcome or {}).get("audit")
    if found is None:
        return None
    return {"verdict": found["verdict"]["verdict"], "removed": found["removed"]}


def _audit(item: Audit) -> dict[str, Any]:
    return {
        "audit": item.number,
        "kind": item.kind,
        "targets": list(item.targets),
        "made_at": item.made_at,
        "verdict": item.evidence["verdict"]["verdict"],
    }


def _nodes(ledger: Ledger, path: Path) -> dict[str, Any]:
    """Nodes and traffic of clients on machines of their own; nothing for other runs."""
    if ledger.meta("clients_at") != paths.AT_NODES:
        return {}
    size = (path / paths.SHARED_FILE).stat().st_size
    traffic = [_traffic(row, size) for row in tables.traffic_rows(ledger)]
    return {**tables.node_rows(ledger), "traffic": traffic}


def _traffic(row: dict[str, Any], shared_bytes: int) -> dict[str, Any]:
    """One action, with the size of its messages in units of the shared tensors."""
    out, back = row["messages_out"] or 1, row["messages_in"] or 1
    return {
        **row,
        "messages_per_client": row["messages_out"] / row["clients"],
        "out_to_shared": row["bytes_out"] / out / shared_bytes,
        "in_to_shared": row["bytes_in"] / back / shared_bytes,
    }


def _records(path: Path, settings: Settings, clients: int) -> dict[str, dict[str, int]]:
    """The size of each record: bytes now, and an estimate for the trained run."""
    shared = read_file(path / paths.SHARED_FILE).values()
    count = sum(map(Tensor.numel, shared))
    extent = Extent(clients, count, len(shared), settings.rounds, settings.clusters)
    sizes = {
        name: {"bytes": 0, "expected": RECORDS[name].size(extent)}
        for name in record_names(settings.record)
    }
    recorded = {record.name for record in RECORDS}
    for file in (path / "records").rglob("*.safetensors"):
        with suppress(FileNotFoundError):  # moved by a commit meanwhile
            kind, size = kind_of(file.relative_to(path).as_posix()), file.stat().st_size
            row = sizes.setdefault(kind, {"bytes": 0, "expected": 0})
            row["bytes"] += size
            row["expected"] += 0 if kind in recorded else size  # clusters: no estimate
    return sizes


_PARTS = {
    paths.SHARED_FILE: "shared",
    paths.INIT_FILE: "initial",
    paths.CLIENTS: "personal",
    "records": "records",
    paths.LEDGER_FILE: "ledger",
    paths.ORACLES: "oracles",
    paths.REHEARSAL: "rehearsal",
    paths.COMPARISONS: "comparisons",
    paths.REPORTS: "reports",
    paths.UNLEARNING: "unlearning",
    paths.DEPLOYMENT: "deployment",
}
"""File or folder at the top of a run folder -> the part that its bytes belong to."""


def folder_size(path: Path) -> dict[str, int]:
    """Bytes of the run folder by part."""
    parts = dict.fromkeys([*_PARTS.values(), "other"], 0)
    for folder, inner, names in os.walk(path):
        if paths.STAGING in inner:
            inner.remove(paths.STAGING)
        for file in (Path(folder) / name for name in names):
            with suppress(FileNotFoundError):  # moved by a commit meanwhile
                part = _PARTS.get(file.relative_to(path).parts[0], "other")
                parts[part] += file.stat().st_size
    return {**parts, "total": sum(parts.values())}
