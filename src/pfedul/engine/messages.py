"""What the `processes` engine and its workers say to each other.

Only small things are pickled; every tensor lies in a shared buffer and the
message says where.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from pfedul.base.inputs import from_named, named_tensors
from pfedul.base.tensors import Tensors
from pfedul.data.samples import ClientData, Samples, TensorSamples
from pfedul.engine.sharedbuffer import Places, SharedBuffer
from pfedul.protocol import Reply, Task


@dataclass(frozen=True)
class Setup:
    """The first message: the bench without its tensors, and where those lie."""

    bench: bytes
    data: Places
    default_dtype: torch.dtype


@dataclass(frozen=True)
class WorkerOrder:
    """Do a task for a client; the answer's tensors go into one of the worker's buffers."""

    task: Task
    client: str
    shared: Places
    personal: Path | None
    buffer: int


@dataclass(frozen=True)
class Answer:
    """A reply whose tensors lie in the buffer that the order named."""

    reply: Reply
    tensors: Places


@dataclass(frozen=True)
class Failure:
    """Something raised; `mistake` is the sentence if it was the user's."""

    what: str
    mistake: str | None
    trace: str


@dataclass(frozen=True)
class Detached:
    """Samples whose tensors lie in a buffer: under which key, and what their inputs are."""

    key: str
    kind: type[Any]
    names: tuple[str, ...]


def detach_data(data: dict[str, ClientData], buffer: SharedBuffer) -> tuple[Any, Places]:
    """Client data with tensors moved into a buffer and keys left in their place."""
    tensors: Tensors = {}
    skeleton: dict[str, dict[str, Any]] = {}
    for client, parts in data.items():
        skeleton[client] = {"train": parts.train, "test": parts.test}
        for part, samples in skeleton[client].items():
            if isinstance(samples, TensorSamples):
                key = f"{client}/{part}"
                named = named_tensors(samples.x)
                tensors |= {f"{key}/x/{name}": tensor for name, tensor in named.items()}
                tensors[f"{key}/y"] = samples.y
                skeleton[client][part] = Detached(key, type(samples.x), tuple(named))
    return skeleton, buffer.write(tensors)


def attach_data(skeleton: Any, tensors: Tensors) -> dict[str, ClientData]:
    """The inverse of `detach_data`: every worker sees the same memory."""

    def attach(samples: Any) -> Samples:
        if isinstance(samples, Detached):
            named = {name: tensors[f"{samples.key}/x/{name}"] for name in samples.names}
            return TensorSamples(from_named(samples.kind, named), tensors[f"{samples.key}/y"])
        return samples  # type: ignore[no-any-return]

    return {
        client: ClientData(attach(parts["train"]), attach(parts["test"]))
        for client, parts in skeleton.items()
    }


def make_answer(reply: Reply, buffer: SharedBuffer) -> Answer:
    """An answer to a reply, its tensors put into the buffer."""
    tensors = {f"shared/{name}": tensor for name, tensor in reply.shared.items()}
    tensors |= {f"personal/{name}": tensor for name, tensor in reply.personal.items()}
    return Answer(replace(reply, shared={}, personal={}), buffer.write(tensors))


def open_answer(answer: Answer, buffer: SharedBuffer) -> Reply:
    """The reply with its tensors as views of the worker's buffer."""
    tensors = buffer.read(answer.tensors)

    def part(prefix: str) -> Tensors:
        return {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}

    return replace(answer.reply, shared=part("shared/"), personal=part("personal/"))
