"""A Flower app whose nodes misbehave as a file in their folder says; copied into an app folder.

    NODE-FOLDER/faults.json     action -> number of the task -> fault
    NODE-FOLDER/waiting         is there while the node waits, and tells why

A node that waits goes on when the fault is taken out of the file, or after some minutes.
"""

import json
import time
from dataclasses import replace
from pathlib import Path

import torch
from flwr.app import Message
from flwr.clientapp import ClientApp

from pfedul.engine.flower.wire import MESSAGE_TYPES, open_order, open_reply, pack_reply
from pfedul.flower import server_app
from pfedul.flower.client import answer

WAIT_SECONDS = 300.0


def with_first(reply, change):
    """The reply with another first shared tensor."""
    name = next(iter(reply.shared))
    return replace(reply, shared={**reply.shared, name: change(reply.shared[name])})


def renamed(reply):
    first, *others = reply.shared
    tensors = {"nobody.knows": reply.shared[first]}
    return replace(reply, shared={**tensors, **{name: reply.shared[name] for name in others}})


SPOIL = {
    "nan": lambda reply: with_first(reply, lambda tensor: tensor * torch.nan),
    "shape": lambda reply: with_first(reply, lambda tensor: tensor[:1]),
    "names": renamed,
    "count": lambda reply: replace(reply, samples=-5),
    "norm": lambda reply: with_first(reply, lambda tensor: tensor + 1e6),
}


def fault_of(folder, task):
    file = folder / "faults.json"
    words = json.loads(file.read_text()) if file.is_file() else {}
    return words.get(task.action, {}).get(str(task.number))


def wait_while(folder, task):
    note, ends = folder / "waiting", time.monotonic() + WAIT_SECONDS
    note.write_text(f"{task.action} {task.number}")
    while fault_of(folder, task) == "wait" and time.monotonic() < ends:
        time.sleep(0.2)
    note.unlink(missing_ok=True)


def handler(action):
    def handle(message, context):
        folder, task = Path(context.node_config["folder"]), open_order(message.content).task
        fault = fault_of(folder, task)
        if fault == "wait":
            wait_while(folder, task)
        content = answer(action, message.content, context.node_config, None)
        if fault in SPOIL:
            content = pack_reply(SPOIL[fault](open_reply(content)))
        return Message(content, reply_to=message)

    return handle


server = server_app()
client = ClientApp()
for _action, _type in MESSAGE_TYPES.items():
    _kind, _, _name = _type.partition(".")
    getattr(client, _kind)(_name)(handler(_action))
