"""The engine whose clients are Flower nodes: a loop of our own over Flower's grid.

One message to each client and one back; nothing waits longer than the deadline.
A client without an answer, for whatever reason, yields a reply that says why.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flwr.app import ArrayRecord, Message
from flwr.serverapp import Grid

from pfedul.client import Reply, Task
from pfedul.engine.protocol import LocatePersonal
from pfedul.flower.wire import MESSAGE_TYPES, Order, open_reply, pack_order, pack_tensors, size_of
from pfedul.personal import as_hash
from pfedul.tensorfile import read_file
from pfedul.tensors import Tensors

POLL_SECONDS = 0.5

LIFETIME = 3.0
"""Deadlines that a message lives: a reply in time may have to wait until another is missed."""


@dataclass
class Traffic:
    """Messages and their bytes, out to clients and back."""

    messages_out: int = 0
    bytes_out: int = 0
    messages_in: int = 0
    bytes_in: int = 0


@dataclass(frozen=True)
class Federated:
    """What an order says of the federation that it belongs to."""

    federation: str
    settings: dict[str, Any]
    first_personal: Callable[[], Tensors]


OnTraffic = Callable[[Task, int, Traffic], None]
"""Told after each task: the task, how many clients it was for, what it took."""


class FlowerEngine:
    """Owns nothing but the way to Flower's nodes; the grid is Flower's own."""

    in_process = False

    def __init__(
        self,
        grid: Grid,
        about: Federated,
        nodes: Callable[[], Mapping[str, int]],
        deadline: float,
        on_traffic: OnTraffic,
    ) -> None:
        """`nodes` says which clients are connected now, and under which id."""
        self._grid, self._about, self._nodes = grid, about, nodes
        self._deadline, self._on_traffic = deadline, on_traffic

    def run(
        self,
        task: Task,
        clients: Sequence[str],
        shared: Tensors,
        locate_personal: LocatePersonal,
    ) -> Generator[Reply, None, None]:
        """Ask all that are connected at once, hand the replies back in order."""
        traffic = Traffic()
        nodes, packed = self._nodes(), pack_tensors(shared)
        messages = {
            client: self._message(task, client, nodes[client], packed, locate_personal)
            for client in clients
            if client in nodes
        }
        exchange = Exchange(self._grid, messages, self._deadline, traffic)
        try:
            for client in clients:
                if client not in nodes:
                    yield Reply(client, 0, failure="its node is not connected")
                elif not exchange.was_sent(client):
                    yield Reply(client, 0, failure="Flower did not take the message to it")
                else:
                    yield _reply_of(client, exchange.wait_for(client), self._deadline)
        finally:
            self._on_traffic(task, len(clients), traffic)

    def _message(
        self,
        task: Task,
        client: str,
        node: int,
        shared: ArrayRecord,
        locate_personal: LocatePersonal,
    ) -> Message:
        path = locate_personal(client)
        order = Order(
            task,
            client,
            self._about.federation,
            self._about.settings,
            personal={} if path is not None else self._about.first_personal(),
            base=None if path is None else as_hash(read_file(path)),
        )
        content, kind = pack_order(order, shared), MESSAGE_TYPES[task.action]
        ttl = LIFETIME * self._deadline
        return Message(content, node, kind, ttl=ttl, group_id=str(task.number))

    def close(self) -> None:
        """The nodes go on without us."""


class Exchange:
    """Messages that were sent; replies are fetched one at a time, so that memory holds but one."""

    def __init__(
        self, grid: Grid, messages: Mapping[str, Message], deadline: float, traffic: Traffic
    ) -> None:
        self._grid, self._traffic = grid, traffic
        self._ends = time.monotonic() + deadline
        ids = grid.push_messages(list(messages.values())) if messages else []
        self._ids = {key: number for key, number in zip(messages, ids, strict=False) if number}
        traffic.messages_out += len(messages)
        traffic.bytes_out += sum(size_of(message.content) for message in messages.values())

    def was_sent(self, key: str) -> bool:
        """Flower refuses messages that are too large, or whose node has just gone."""
        return key in self._ids

    def wait_for(self, key: str) -> Message | None:
        """The reply to one message; None if it has not come before the deadline."""
        number = self._ids.pop(key, None)
        while number is not None:
            for reply in self._grid.pull_messages([number]):
                self._traffic.messages_in += 1
                self._traffic.bytes_in += size_of(reply.content) if reply.has_content() else 0
                return reply
            if time.monotonic() >= self._ends:
                break
            time.sleep(POLL_SECONDS)
        return None


def _reply_of(client: str, message: Message | None, deadline: float) -> Reply:
    """The reply in a message that may be anything, or be missing."""
    if message is None:
        return Reply(client, 0, failure=f"no answer within {deadline:g} s")
    if message.has_error():
        return Reply(client, 0, failure=_words(message))
    try:
        return open_reply(message.content)
    except Exception as error:
        reason = f"its reply cannot be read ({type(error).__name__}: {error})"
        return Reply(client, 0, failure=reason)


def _words(message: Message) -> str:
    return f"Flower reports error {message.error.code}: {message.error.reason or 'no reason given'}"
