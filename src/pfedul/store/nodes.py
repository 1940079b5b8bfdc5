"""Rows of the ledger about clients that are Flower nodes: keys, strangers, erasures, traffic."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pfedul.base.clock import now
from pfedul.store.chain import ERASURE, Attestation
from pfedul.store.ledger import Ledger, Statement, insert
from pfedul.store.paths import AT_NODES
from pfedul.store.requests import SIGNED


def run_facts(shape: Sequence[int], classes: int) -> list[Statement]:
    """Facts of a run whose clients are nodes, in addition to those of every run."""
    facts = {
        "clients_at": AT_NODES,
        "federation": uuid.uuid4().hex,
        "input_shape": json.dumps(shape),
        "classes": str(classes),
    }
    return [insert("meta", key=key, value=value) for key, value in facts.items()]


def read_inputs(ledger: Ledger) -> tuple[tuple[int, ...], int]:
    """The shape of all inputs, and the number of classes."""
    return tuple(json.loads(str(ledger.meta("input_shape")))), int(str(ledger.meta("classes")))


def data_digest(ledger: Ledger, client: str) -> str | None:
    """The hash of the data with which a client joined."""
    digest: str | None = ledger.value("SELECT data_sha256 FROM clients WHERE client = ?", client)
    return digest


def bound_keys(ledger: Ledger) -> dict[str, str]:
    """Client -> the key of its node."""
    return ledger.pairs("SELECT client, node_key FROM nodes ORDER BY client")


def barred_keys(ledger: Ledger) -> set[str]:
    """Keys of nodes whose client was forgotten."""
    return set(ledger.column("SELECT node_key FROM barred"))


def binding_rows(client: str, key: str) -> list[Statement]:
    """Bind a name to a key, and remove both from the list of strangers."""
    return [insert("nodes", client=client, node_key=key, bound_at=now()), _known_row(client, key)]


def _known_row(client: str, key: str) -> Statement:
    return "DELETE FROM strangers WHERE claim = ? OR node_key = ?", (client, key)


def stranger_row(key: str, claim: str, reason: str) -> Statement:
    """A node that was refused, the name that it claimed, and why."""
    return insert("strangers", node_key=key, claim=claim, reason=reason, at=now())


def barring_rows(ledger: Ledger, request: int, held: Mapping[str, str | None]) -> list[Statement]:
    """Bar the nodes of forgotten clients; each has yet to confirm that it erased its folder.

    `held` is the hash of what each of them held: until it confirms, that stands for the receipt.
    """
    keys, rows = bound_keys(ledger), []
    for target, sha256 in held.items():
        key = keys.get(target, "")
        wanted = {"receipt": None if sha256 is None else json.dumps({"held": sha256})}
        asked = {"request": request, "target": target, "node_key": key, "asked_at": now()}
        rows += [
            insert("barred", node_key=key, request=request),
            insert("erasures", **asked, **wanted),
            Attestation(ERASURE, "erasures", (request, target), {"confirmed": False}),
            _known_row(target, key),
        ]
    return rows


def unconfirmed_erasures(ledger: Ledger) -> list[dict[str, Any]]:
    """Erasures that clients have not confirmed yet."""
    return ledger.rows("SELECT * FROM erasures WHERE confirmed_at IS NULL")


def confirmed_rows(erasure: Mapping[str, Any], receipt: Mapping[str, Any]) -> list[Statement]:
    """An erasure with the client's receipt: how much was erased, not the hashes of its tensors."""
    kept = {key: receipt[key] for key in ("erased_at", "files", "bytes", SIGNED)}
    key = erasure["request"], erasure["target"]
    return [
        insert("erasures", **{**erasure, "confirmed_at": now(), "receipt": json.dumps(kept)}),
        Attestation(ERASURE, "erasures", key, {"confirmed": True, SIGNED: kept[SIGNED]}),
    ]


def traffic_row(action: str, number: int, clients: int, counts: Mapping[str, int]) -> Statement:
    """Messages and bytes that a task took."""
    return insert("traffic", action=action, number=number, clients=clients, at=now(), **counts)


def begin_action(ledger: Ledger, action: str) -> int:
    """Note that an action of the Flower app has begun; returns its number."""
    number = 1 + int(ledger.value("SELECT MAX(id) FROM actions") or 0)
    ledger.write([insert("actions", id=number, action=action, started_at=now())])
    return number


def end_action(ledger: Ledger, number: int, result: str) -> None:
    """Note how an action ended."""
    sql = "UPDATE actions SET finished_at = ?, result = ? WHERE id = ?"
    ledger.write([(sql, (now(), result, number))])
