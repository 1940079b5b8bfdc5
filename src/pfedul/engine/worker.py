"""A worker process: waits for orders, does them for one client at a time, answers.

Started by the `processes` engine as `python -m pfedul.engine.worker`. It never
imports the user's main script, so that scripts need no `__main__` guard.
"""

from __future__ import annotations

import signal
import sys
import traceback
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection

import cloudpickle
import torch
from torch import nn

from pfedul.client import Workbench, perform
from pfedul.engine.messages import Answer, Failure, Order, Setup, attach_data, make_answer
from pfedul.engine.sharedbuffer import SharedBuffer
from pfedul.errors import PfedulError
from pfedul.tensorfile import read_file


def serve(
    line: Connection, data: SharedBuffer, shared: SharedBuffer, own: list[SharedBuffer]
) -> None:
    """Answer orders until the engine hangs up."""
    setup: Setup = line.recv()
    bench: Workbench = cloudpickle.loads(setup.bench)
    bench = replace(bench, data=attach_data(bench.data, data, setup.data))
    model = bench.build_model()
    while True:
        order: Order = line.recv()
        line.send(carry_out(order, bench, model, shared, own[order.buffer]))


def carry_out(
    order: Order, bench: Workbench, model: nn.Module, shared: SharedBuffer, own: SharedBuffer
) -> Answer | Failure:
    """The answer to one order; what goes wrong in it is an answer too."""
    try:
        personal = {} if order.personal is None else read_file(order.personal)
        tensors = shared.read(order.shared)
        reply = perform(bench, model, order.task, order.client, tensors, personal)
        return make_answer(reply, order.buffer, own)
    except Exception as error:
        mistake = str(error) if isinstance(error, PfedulError) else None
        return Failure(order.client, mistake, traceback.format_exc())


def main() -> None:
    """Serve on the descriptors that the command line names."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the engine's process to handle
    torch.set_num_threads(1)
    line, data, shared, *own = map(int, sys.argv[1:])
    buffers = [SharedBuffer(descriptor) for descriptor in own]
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the engine has hung up
        serve(Connection(line), SharedBuffer(data), SharedBuffer(shared), buffers)


if __name__ == "__main__":
    main()
