"""How one job goes out over Flower's grid and comes back in order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from flwr.app import Message
from flwr.serverapp import Grid

from pfedul.base.tensorfile import decode, encode, read_file
from pfedul.engine.flower.sim_client import FAILURE
from pfedul.engine.flower.sim_process import Job, Packed
from pfedul.engine.flower.wire import MESSAGE_TYPES, Order, open_reply, open_words, pack_order
from pfedul.engine.messages import Failure
from pfedul.engine.processes import ATTEMPTS

PULL_SECONDS = 0.02
"""Flower's in-memory grid has to be asked again and again."""

ROOM_BYTES = 256 * 2**20
"""How much of the messages may be under way, once every worker has its work."""

DEATHS = ("ActorDied", "ActorUnavailable", "OutOfMemory", "WorkerCrashed")
"""Ray's names for the end of a worker process."""


class Desk:
    """Sends one job's orders out over Flower's grid and gathers the replies."""

    def __init__(self, grid: Grid, nodes: dict[str, int], job: Job, room: int) -> None:
        self._grid, self._nodes, self._job, self._room = grid, nodes, job, room
        self._shared = decode(job.shared)
        self._waiting = deque(zip(job.clients, job.personal, strict=True))
        self._sent: dict[str, str] = {}
        self._done: dict[str, Packed | Failure] = {}

    def answers(self) -> Iterator[Packed | Failure]:
        """One for each client, in the order of the job."""
        for client in self._job.clients:
            while client not in self._done:
                self._give_out()
                self._collect()
            yield self._done.pop(client)

    def _give_out(self) -> None:
        """Orders, as far as there is room for them and their replies."""
        while self._waiting and len(self._sent) + len(self._done) < self._room:
            client, file = self._waiting.popleft()
            personal = {} if file is None else read_file(file)
            order = Order(self._job.task, client, shared=self._shared, personal=personal)
            message_type = MESSAGE_TYPES[order.task.action]
            [number] = self._grid.push_messages(
                [Message(pack_order(order), self._nodes[client], message_type)]
            )
            self._sent[number] = client

    def _collect(self) -> None:
        replies = list(self._grid.pull_messages(self._sent))
        for message in replies:
            client = self._sent.pop(message.metadata.reply_to_message_id)
            self._done[client] = opened(message, client)
        if not replies:
            time.sleep(PULL_SECONDS)


def opened(message: Message, client: str) -> Packed | Failure:
    """What a message holds: a reply, or a failure in its place."""
    found = failure_in(message, f"The work for {client}")
    if found is not None:
        return found
    reply = open_reply(message.content)
    tensors = encode(reply.shared), encode(reply.personal)
    return Packed(replace(reply, shared={}, personal={}), *tensors)


def failure_in(message: Message, what: str) -> Failure | None:
    """The client's own failure, or one of Flower or Ray."""
    if message.has_error():
        return explained(message.error.reason or "no reason given", what)
    if FAILURE in message.content:
        return Failure(**open_words(FAILURE, message.content))
    return None


def explained(reason: str, what: str) -> Failure:
    """A worker process that died again and again gets a sentence, anything else its trace."""
    sentence = (
        f"{what} ended its worker process {ATTEMPTS} times (killed: is there enough memory?); "
        "try fewer --workers, or --engine inline to see the cause."
    )
    died = any(sign in reason for sign in DEATHS)
    return Failure(what, sentence if died else None, reason)


def room_for(job: Job, cpus: int) -> int:
    """Messages that may be under way: every worker's next one, and more if they are small."""
    files = [file.stat().st_size for file in job.personal if file is not None]
    largest = len(job.shared) + max(files, default=0)
    return max(2 * cpus, ROOM_BYTES // largest)
