"""A Flower grid in one process: real orders, real handlers, no network.

Nodes have keys, can be away, hang, or send back whatever a test makes of their
replies. What only processes can show (kills, TLS, the superlink) is tested with
a real deployment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from helpers.toys import WithNorm, client_data
from pfedul.flower.app_config import read_config
from pfedul.flower.client import Node
from pfedul.flower.deployment.certificates import make_node_key
from pfedul.flower.deployment.layout import DeploymentPaths
from pfedul.flower.identity import FlowerServer
from pfedul.flower.server import run_action
from pfedul.flower.signing import public_form, read_node_key

Spoil = Callable[[str, RecordDict], RecordDict | Error | None]
"""What becomes of a reply on its way: another content, an error, or nothing at all."""


@dataclass
class FakeNode:
    """A supernode: its key, its config, and how it behaves."""

    key: bytes
    config: dict[str, Any]
    online: bool = True
    name: str = ""
    spoil: Spoil = lambda _kind, content: content
    seen: list[str] = field(default_factory=list)

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.key).hexdigest()


class OneProcessGrid(Grid):
    """Hands each message to the node's handler when its reply is first asked for."""

    def __init__(self, app: ClientApp) -> None:
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1
        self.nodes: dict[int, FakeNode] = {}
        self._app = app
        self._sent: dict[str, Message] = {}

    def add(self, client: str, folder: Path, key: str | None = None, **config: Any) -> FakeNode:
        node = FakeNode(
            (key or client).encode(), {"client": client, "folder": str(folder), **config}
        )
        self.nodes[len(self.nodes) + 1] = node
        return node

    def of(self, client: str) -> FakeNode:
        return next(node for node in self.nodes.values() if node.config["client"] == client)

    def get_nodes(self) -> Iterable[NodeInfo]:
        return [
            NodeInfo(node_id=number, public_key=node.key, name=node.name)
            for number, node in self.nodes.items()
            if node.online
        ]

    def get_node_ids(self) -> Iterable[int]:
        return [node.node_id for node in self.get_nodes()]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        numbers = []
        for message in messages:
            number = f"m{len(self._sent) + len(numbers)}-{id(message)}"
            message.metadata.__dict__["_message_id"] = number
            numbers.append(number)
            self._sent[number] = message
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        found = (self._reply(self._sent.pop(number, None)) for number in list(message_ids))
        return [reply for reply in found if reply is not None]

    def _reply(self, message: Message | None) -> Message | None:
        if message is None:
            return None
        node = self.nodes[message.metadata.dst_node_id]
        kind = message.metadata.message_type
        node.seen.append(kind)
        context = Context(1, message.metadata.dst_node_id, node.config, RecordDict(), {})
        content = node.spoil(kind, self._app(message, context).content)
        return None if content is None else Message(content, reply_to=message)

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *_: Any, **__: Any) -> Message:
        raise NotImplementedError

    def send_and_receive(self, *_: Any, **__: Any) -> Iterable[Message]:
        raise NotImplementedError


def load_toy(node: Node) -> tuple[Any, Any, Any]:
    """A client of the toy federation, as a user would write it."""
    train, test = client_data(4)[node.client]
    return WithNorm(), train, test


def with_key(node: FakeNode, folder: Path) -> Path:
    """Give a node a key that signs, as `pfedul up` does; returns its file."""
    layout = DeploymentPaths(folder / "keys-of-nodes")
    make_node_key(layout, node.config["client"])
    file = layout.key(node.config["client"])
    node.key = public_form(read_node_key(file))
    node.config["key"] = str(file)
    return file


def allow(node: FakeNode, policy: str, folder: Path) -> None:
    """Give a node a policy: the text of its file."""
    path = folder / f"{node.config['client']}-policy.toml"
    path.write_text(policy)
    node.config["policy"] = str(path)


QUICK = {
    "rounds": 2,
    "clients": 3,
    "personalization": "fedper",
    "local-epochs": 1,
    "batch-size": 8,
    "nodes-deadline": 0.2,
    "answer-deadline": 0.2,
    "reply-deadline": 0.3,
}


class Operator:
    """Runs actions of the app as `flwr run` would."""

    def __init__(self, run: Path, grid: OneProcessGrid) -> None:
        self.run, self.grid = run, grid
        self.told: list[str] = []

    def __call__(self, action: str, **config: Any) -> dict[str, Any]:
        given = {key.replace("_", "-"): value for key, value in config.items()}
        first = QUICK if action == "train" else {key: QUICK[key] for key in QUICK if "dead" in key}
        if action == "forget" and "signed-request" not in given:
            first = {**first, "by": "case 17", "ground": "GDPR Art. 17(1)(b)"}
        options, asked = read_config({**first, "run": str(self.run), "action": action, **given})
        return run_action(FlowerServer(self.grid, options, WithNorm, self.told.append), asked)
