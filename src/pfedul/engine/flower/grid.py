"""The engine whose clients are Flower nodes: a loop of our own over Flower's grid.

One message to each client and one back, within a deadline (Flower itself adds up to
three minutes where a node dies in the middle of sending its reply).
A client that does not answer yields a reply with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

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

T = TypeVar("T")


@dataclass
class Traffic:
    """Messages and their bytes, out to clients and back."""

    messages_out: int = 0
    bytes_out: int = 0
    messages_in: int = 0
    bytes_in: int = 0


@dataclass
class FlowerEngine:
    """Sends tasks to Flower's nodes over Flower's grid.

    `federation`, `settings`, `first_personal` and `data_sha256` are what an order says of the
    federation. `nodes` says which clients are connected now, and under which id. `on_traffic` is
    called after each task with the number of its clients and the traffic.
    """

    grid: Grid
    federation: str
    settings: dict[str, Any]
    first_personal: Callable[[], Tensors]
    data_sha256: Callable[[str], str | None]
    nodes: Callable[[], Mapping[str, int]]
    deadline: float
    on_traffic: Callable[[Task, int, Traffic], None]
    in_process = False

    def run(
        self, task: Task, clients: Sequence[str], shared: Tensors, locate_personal: LocatePersonal
    ) -> Generator[Reply, None, None]:
        """Ask all that are connected at once, hand the replies back in order."""
        traffic = Traffic()
        nodes, packed = self.nodes(), pack_tensors(shared)
        messages = {
            client: self._message(task, client, nodes[client], packed, locate_personal)
            for client in clients
            if client in nodes
        }
        exchange = Exchange(self.grid, messages, self.deadline, traffic)
        try:
            for client in clients:
                reply: Reply | str = "its node is not connected"
                if client in nodes:
                    reply = exchange.wait_for(client, open_reply)
                yield Reply(client, 0, failure=reply) if isinstance(reply, str) else reply
        finally:
            self.on_traffic(task, len(clients), traffic)

    def _message(
        self, task: Task, client: str, node: int, shared: ArrayRecord, locate: LocatePersonal
    ) -> Message:
        path = locate(client)
        order = NodeOrder(
            task,
            client,
            self.federation,
            self.settings,
            personal={} if path is not None else self.first_personal(),
            base=None if path is None else as_hash(read_file(path)),
            data_sha256=self.data_sha256(client),
        )
        content, kind = pack_order(order, shared), MESSAGE_TYPES[task.action]
        return Message(content, node, kind, ttl=lifetime(self.deadline), group_id=str(task.number))

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

    def wait_for(self, key: str, read: Callable[[RecordDict], T]) -> T | str:
        """What `read` makes of the reply to one message, or why there is none."""
        number = self._ids.pop(key, None)
        if number is None:  # it is too large, or its node has just gone
            return "Flower did not take the message to it"
        while True:
            late = time.monotonic() >= self._ends  # said before the last look
            try:
                for reply in self._grid.pull_messages([number]):
                    return self._opened(reply, read)
            except Exception as error:  # what was sent may be anything at all
                return clean_text(f"its reply cannot be read ({type(error).__name__}: {error})")
            if late:
                return f"no answer within {self._deadline:g} s"
            time.sleep(POLL_SECONDS)

    def _opened(self, reply: Message, read: Callable[[RecordDict], T]) -> T | str:
        self._traffic.messages_in += 1
        if reply.has_error():
            reason = clean_text(reply.error.reason or "no reason given")
            return f"Flower reports error {reply.error.code}: {reason}"
        self._traffic.bytes_in += size_of(reply.content)
        return read(reply.content)


def lifetime(deadline: float) -> float:
    """Seconds that a message and its reply live.

    A reply that is in time may have to wait while others are missed, and Flower itself
    waits some three minutes for one whose sending was cut off.
    """
    return 3 * deadline + 240
