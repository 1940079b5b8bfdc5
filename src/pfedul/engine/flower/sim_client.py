"""A simulated client: what Flower runs in Ray's worker processes.

Flower sends the ClientApp with every message. So it holds nothing but a reference
to the bench in Ray's object store; each worker process fetches the bench once,
and the samples stay in memory that the workers of a machine share.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import ray
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from ray import ObjectRef

from pfedul.client import Scratch, perform
from pfedul.engine.flower.wire import app_of, open_order, pack_reply, pack_words
from pfedul.engine.messages import Setup
from pfedul.engine.sharedbuffer import views
from pfedul.engine.worker import failure, set_up
from pfedul.protocol import Workbench

Bench = tuple[Setup, npt.NDArray[np.uint8]]
"""The bench without its tensors, and the memory in which those lie."""

FAILURE = "failure"
"""The name of a reply's words where there is a failure in the reply's place."""


def client_app(bench: ObjectRef[Bench]) -> ClientApp:
    """The app that answers every type of message for any client."""

    def handle(message: Message, _context: Context) -> Message:
        return Message(answer(bench, message.content), reply_to=message)

    return app_of(lambda _action: handle)


def answer(bench: ObjectRef[Bench], content: RecordDict) -> RecordDict:
    """The reply to an order; what goes wrong in it is a reply too. No content is a greeting."""
    what = "Setting up the model and the data"
    try:
        place = workplace(bench)
        if not content:
            return RecordDict()
        order = open_order(content)
        what = f"The work for {order.client}"
        reply = perform(*place, order.task, order.client, order.shared, order.personal)
        return pack_reply(reply)
    except Exception as error:
        return pack_words(FAILURE, asdict(failure(what, error)))


@lru_cache(maxsize=1)
def workplace(bench: ObjectRef[Bench]) -> tuple[Workbench, Scratch]:
    """The bench and a model of its own, once per worker process."""
    setup, memory = ray.get(bench)
    return set_up(setup, views(memory, setup.data))
