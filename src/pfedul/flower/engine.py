"""The engine whose clients are Flower nodes: a loop of our own over Flower's grid.

One message to each client and one back; nothing waits longer than the deadline.
A client without an answer, for whatever reason, yields a reply that says why.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from pfedul.client import Reply, Task
from pfedul.engine.protocol import LocatePersonal
from pfedul.flower.wire import MESSAGE_TYPES, Order, open_reply, pack_order, size_of
from pfedul.personal import as_hash
from pfedul.tensorfile import read_file
from pfedul.tensors import Tensors

POLL_SECONDS = 0.5


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
        nodes = self._nodes()
        messages = {
            client: self._message(task, client, nodes[client], shared, locate_personal)
            for client in clients
            if client in nodes
        }
        exchange = Exchange(self._grid, messages, self._deadline, traffic)
        try:
            for client in clients:
                if client in nodes:
                    yield _reply_of(client, exchange.wait_for(client), self._deadline)
                else:
                    yield Reply(client, 0, failure="its node is not connected")
        finally:
            self._on_traffic(task, len(clients), traffic)

    def _message(
        self, task: Task, client: str, node: int, shared: Tensors, locate_personal: LocatePersonal
    ) -> Message:
        path = locate_personal(client)
        order = Order(
            task,
            client,
            self._about.federation,
            self._about.settings,
            shared,
            personal={} if path is not None else self._about.first_personal(),
            base=None if path is None else as_hash(read_file(path)),
        )
        content, kind = pack_order(order), MESSAGE_TYPES[task.action]
        return Message(content, node, kind, ttl=self._deadline, group_id=str(task.number))

    def close(self) -> None:
        """The nodes go on without us."""


class Exchange:
    """Messages that were sent, and replies as they come in."""

    def __init__(
        self, grid: Grid, messages: Mapping[str, Message], deadline: float, traffic: Traffic
    ) -> None:
        self._grid, self._traffic = grid, traffic
        self._ends = time.monotonic() + deadline
        ids = list(grid.push_messages(list(messages.values()))) if messages else []
        self._waiting = {
            number: key for key, number in zip(messages, ids, strict=False) if number is not None
        }
        self._arrived: dict[str, Message] = {}
        traffic.messages_out += len(messages)
        traffic.bytes_out += sum(size_of(message.content) for message in messages.values())

    def wait_for(self, key: str) -> Message | None:
        """The reply to one message; None if it has not come before the deadline."""
        while key not in self._arrived and key in self._waiting.values():
            self._collect()
            if key in self._arrived or time.monotonic() >= self._ends:
                break
            time.sleep(POLL_SECONDS)
        return self._arrived.pop(key, None)

    def _collect(self) -> None:
        """Replies are told apart by what they reply to: a dead node's come from the superlink."""
        for reply in self._grid.pull_messages(list(self._waiting)):
            key = self._waiting.pop(reply.metadata.reply_to_message_id, None)
            if key is not None:
                self._arrived[key] = reply
                self._traffic.messages_in += 1
                self._traffic.bytes_in += size_of(reply.content) if reply.has_content() else 0


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
