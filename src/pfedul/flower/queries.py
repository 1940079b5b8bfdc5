"""Small questions to nodes, answered in words: no tensor goes out with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from pfedul.engine.flower.grid import Exchange, Traffic, lifetime, unreadable
from pfedul.engine.flower.wire import MESSAGE_TYPES, Order, clean_text, open_words, pack_order
from pfedul.flower.app_config import AppOptions
from pfedul.protocol import Task
from pfedul.run.assembly import ModelFactory
from pfedul.store.ledger import Statement, insert
from pfedul.store.tables import now

Words = Mapping[str, Any]


@dataclass(frozen=True)
class Server:
    """Where the server stands: Flower's grid, what it was told, and the user's own model if any."""

    grid: Grid
    options: AppOptions
    model: ModelFactory | None
    tell: Callable[[str], None]


def ask(
    server: Server, order: Order, nodes: Mapping[str, int]
) -> tuple[dict[str, Words], list[Statement]]:
    """What each node answers, failures being words as well; and the ledger row of the traffic."""
    if not nodes:
        return {}, []
    action, deadline = order.task.action, server.options.answer_deadline
    content, kind = pack_order(order), MESSAGE_TYPES[action]
    ttl = lifetime(deadline)
    messages = {key: Message(content, node, kind, ttl=ttl) for key, node in nodes.items()}
    traffic = Traffic()
    exchange = Exchange(server.grid, messages, deadline, traffic)
    answers = {key: _words(exchange.wait_for(key), action) for key in nodes}
    return answers, [traffic_row(order.task, len(nodes), traffic)]


def _words(found: RecordDict | str, action: str) -> Words:
    if isinstance(found, str):
        return {"failure": found}
    try:
        words = open_words(action, found)
        failure = words.get("failure")
        return words if failure is None else {"failure": clean_text(failure)}
    except Exception as error:
        return {"failure": unreadable(error)}


def traffic_row(task: Task, clients: int, traffic: Traffic) -> Statement:
    """What a task took, in messages and bytes."""
    about = {"action": task.action, "number": task.number, "clients": clients, "at": now()}
    return insert("traffic", **about, **asdict(traffic))
