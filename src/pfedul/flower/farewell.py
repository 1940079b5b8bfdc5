"""A client that was forgotten is asked to erase its own folder, until it confirms that it has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pfedul.engine.flower.wire import Order
from pfedul.federation import Federation
from pfedul.flower.identity import online_nodes
from pfedul.flower.queries import Server, Words, ask
from pfedul.protocol import Task
from pfedul.store.ledger import Statement, insert
from pfedul.store.tables import now


def confirm_erasures(server: Server, federation: Federation) -> None:
    """Ask those who are connected and have yet to confirm; note their receipts."""
    ledger = federation.store.ledger
    waiting = ledger.rows("SELECT * FROM erasures WHERE confirmed_at IS NULL")
    online = online_nodes(server.grid) if waiting else {}
    for row in waiting:
        if row["node_key"] in online:
            _ask_one(server, federation, row, online[row["node_key"]])


def _ask_one(server: Server, federation: Federation, row: Mapping[str, Any], node: int) -> None:
    ledger, target = federation.store.ledger, row["target"]
    name = str(ledger.meta("federation"))
    order = Order(Task("erase", int(row["request"])), target, name)
    answers, rows = ask(server, order, {target: node})
    words = answers[target]
    if words.get("failure") or words.get("federation") != name:
        server.tell(f"{target} has not confirmed: {words.get('failure', 'an odd receipt')}.")
    else:
        rows.append(_receipt_row(row, words))
        server.tell(f"{target} confirms that its folder is erased.")
    ledger.write(rows)


def _receipt_row(row: Mapping[str, Any], receipt: Words) -> Statement:
    """How much was erased, not the hashes: they are of the target's tensors."""
    kept = {key: receipt.get(key) for key in ("erased_at", "files", "bytes")}
    return insert("erasures", **{**row, "confirmed_at": now(), "receipt": json.dumps(kept)})
