"""What goes over Flower's wire: orders to clients and their replies, as Flower's records.

Tensors travel as one safetensors blob in one Flower array: every bit and every
type arrives as it was sent, and a message is a few large objects instead of one
for each tensor. Whatever arrives may be anything at all: opening it raises, and
the caller turns that into a refusal.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from pfedul.base.tensorfile import decode, encode
from pfedul.base.tensors import Tensors
from pfedul.personalization import Recalibration
from pfedul.protocol import Reply, Task

MESSAGE_TYPES = {
    "fit": "train.fit",
    "recalibrate": "train.recalibrate",
    "statistics": "train.statistics",
    "evaluate": "evaluate.evaluate",
    "exact-fisher": "query.exact_fisher",
    "work": "train.work",
    "hello": "query.hello",
    "erase": "query.erase",
}
"""What clients are asked to do -> Flower's type of the message."""

_STYPE = "safetensors"

Handler = Callable[[Message, Context], Message]


def app_of(handler: Callable[[str], Handler]) -> ClientApp:
    """The app of a client; `handler` gives the function that answers an action."""
    app = ClientApp()
    for action, message_type in MESSAGE_TYPES.items():
        category, _, name = message_type.partition(".")
        getattr(app, category)(name)(handler(action))
    return app


@dataclass(frozen=True)
class NodeOrder:
    """What a client is asked to do, and on what.

    `base` is the SHA-256 of the personal tensors that it starts from and holds
    itself; without one it starts from `personal`. `settings` are those of the
    federation, as far as clients need them, and `data_sha256` is the hash of the
    client's data when it joined.
    """

    task: Task
    client: str
    federation: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    shared: Tensors = field(default_factory=dict)
    personal: Tensors = field(default_factory=dict)
    base: str | None = None
    data_sha256: str | None = None


def pack_order(order: NodeOrder, shared: ArrayRecord | None = None) -> RecordDict:
    """An order as the content of a message.

    `shared`: the shared tensors, packed already, so orders to many clients hold
    one copy of them.
    """
    content = _pack("order", order)
    if shared is not None:
        content["shared"] = shared
    return content


def open_order(content: RecordDict) -> NodeOrder:
    """The inverse of `pack_order`."""
    words, tensors = _open("order", content)
    task = words.pop("task")
    how = task.pop("recalibration")
    recalibration = None if how is None else Recalibration(**how)
    return NodeOrder(task=Task(**task, recalibration=recalibration), **words, **tensors)


def pack_reply(reply: Reply) -> RecordDict:
    """A reply as the content of a message."""
    return _pack("reply", reply)


def open_reply(content: RecordDict) -> Reply:
    """The inverse of `pack_reply`; raises where a part is not of the type that it should be."""
    words, tensors = _open("reply", content)
    reply = Reply(**words, **tensors)
    return replace(
        reply,
        client=clean_text(reply.client),
        samples=_whole(reply.samples),
        metrics={clean_text(name): _number(value) for name, value in reply.metrics.items()},
        seconds=_duration(reply.seconds),
        cpu_seconds=_duration(reply.cpu_seconds),
        held=None if reply.held is None else clean_text(reply.held),
        failure=None if reply.failure is None else clean_text(reply.failure),
    )


def clean_text(value: object) -> str:
    """A text of another's that can be stored and shown: no control characters, not too long.

    >>> clean_text("two\\nlines")
    'two lines'
    """
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} in the place of a text")
    sound = value[:LONGEST_TEXT].encode("utf-8", "replace").decode()
    return "".join(letter if letter.isprintable() else " " for letter in sound)


LONGEST_TEXT = 500


def _whole(value: object) -> int:
    if type(value) is not int or abs(value) >= 2**53:
        raise TypeError("no whole number where there should be one")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("no number where there should be one")
    return float(value)


def _duration(value: object) -> float:
    seconds = _number(value)
    if not 0 <= seconds < 1e9:
        raise ValueError(f"{seconds} is no duration")
    return seconds


def pack_words(name: str, words: dict[str, Any]) -> RecordDict:
    """Plain data as the content of a message."""
    return RecordDict({name: ConfigRecord({"json": json.dumps(words)})})


def open_words(name: str, content: RecordDict) -> dict[str, Any]:
    """The inverse of `pack_words`."""
    return _open(name, content)[0]


def size_of(content: RecordDict) -> int:
    """Bytes of a content: tensors, words and their names; 0 of what cannot be counted."""
    try:
        return sum(record.count_bytes() for record in content.values())
    except Exception:  # Flower's own counting fails on an empty text
        return 0


def _pack(name: str, what: NodeOrder | Reply) -> RecordDict:
    words = asdict(replace(what, shared={}, personal={}))
    del words["shared"], words["personal"]
    content = pack_words(name, words)
    for part, tensors in (("shared", what.shared), ("personal", what.personal)):
        if tensors:
            content[part] = pack_tensors(tensors)
    return content


def pack_tensors(tensors: Tensors) -> ArrayRecord:
    """Tensors as one record of one array."""
    data = encode(tensors)
    return ArrayRecord({_STYPE: Array("uint8", (len(data),), _STYPE, data)})


def _open(name: str, content: RecordDict) -> tuple[dict[str, Any], dict[str, Any]]:
    words = json.loads(str(content.config_records[name]["json"]))
    tensors = {
        part: decode(record[_STYPE].data)
        for part, record in content.array_records.items()
        if part in {"shared", "personal"}
    }
    return words, tensors
