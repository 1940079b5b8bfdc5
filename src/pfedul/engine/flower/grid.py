"""The engine whose clients are Flower nodes: a loop of our own over Flower's grid.

One message to each client and one back, within a deadline (Flower itself adds up to
three minutes where a node dies in the middle of sending its reply).
A client that does not answer yields a reply with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flwr.app import ArrayRecord, Message, RecordDict
from flwr.serverapp import Grid

from pfedul.base.tensorfile import as_hash, read_file
from pfedul.base.tensors import Tensors
from pfedul.engine.flower.wire import (
    MESSAGE_TYPES,
    NodeOrder,
    clean_text,
    open_reply,
    pack_order,
    pack_tensors,
    size_of,
)
from pfedul.protocol import LocatePersonal, Reply, Task

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
    data_sha256: Callable[[str], str | None]


OnTraffic = Callable[[Task, int, Traffic], None]
"""Called after each task with the task, the number of clients and the traffic."""


class FlowerEngine:
    """Sends tasks to Flower's nodes over Flower's grid."""

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
        self, task: Task, clients: Sequence[str], shared: Tensors, locate_personal: LocatePersonal
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
                else:
                    yield _reply_of(client, exchange.wait_for(client))
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
        order = NodeOrder(
            task,
            client,
            self._about.federation,
            self._about.settings,
            personal={} if path is not None else self._about.first_personal(),
            base=None if path is None else as_hash(read_file(path)),
            data_sha256=self._about.data_sha256(client),
        )
        content, kind = pack_order(order, shared), MESSAGE_TYPES[task.action]
        ttl = lifetime(self._deadline)
        return Message(content, node, kind, ttl=ttl, group_id=str(task.number))

    def close(self) -> None:
        """Nothing to close: the nodes keep running."""


class Exchange:
    """Messages that were sent; replies are fetched one at a time, to hold only one in memory."""

    def __init__(
        self, grid: Grid, messages: Mapping[str, Message], deadline: float, traffic: Traffic
    ) -> None:
        self._grid, self._traffic, self._deadline = grid, traffic, deadline
        self._ends = time.monotonic() + deadline
        ids = grid.push_messages(list(messages.values())) if messages else []
        self._ids = {key: number for key, number in zip(messages, ids, strict=False) if number}
        traffic.messages_out += len(messages)
        traffic.bytes_out += sum(size_of(message.content) for message in messages.values())

    def wait_for(self, key: str) -> RecordDict | str:
        """The content of the reply to one message, or why there is none."""
        number = self._ids.pop(key, None)
        if number is None:  # it is too large, or its node has just gone
            return "Flower did not take the message to it"
        while True:
            late = time.monotonic() >= self._ends  # said before the last look
            try:
                for reply in self._grid.pull_messages([number]):
                    return self._opened(reply)
            except Exception as error:  # what was sent may be anything at all
                return unreadable(error)
            if late:
                return f"no answer within {self._deadline:g} s"
            time.sleep(POLL_SECONDS)

    def _opened(self, reply: Message) -> RecordDict | str:
        self._traffic.messages_in += 1
        if reply.has_error():
            reason = clean_text(reply.error.reason or "no reason given")
            return f"Flower reports error {reply.error.code}: {reason}"
        self._traffic.bytes_in += size_of(reply.content)
        return reply.content


def _reply_of(client: str, found: RecordDict | str) -> Reply:
    """The reply in a content that may be anything."""
    if isinstance(found, str):
        return Reply(client, 0, failure=found)
    try:
        return open_reply(found)
    except Exception as error:
        return Reply(client, 0, failure=unreadable(error))


def unreadable(error: Exception) -> str:
    """What is said of a reply that is not one."""
    return clean_text(f"its reply cannot be read ({type(error).__name__}: {error})")


def lifetime(deadline: float) -> float:
    """Seconds that a message and its reply live.

    A reply that is in time may have to wait while others are missed, and Flower itself
    waits some three minutes for one whose sending was cut off.
    """
    return 3 * deadline + 240
