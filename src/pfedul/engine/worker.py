"""A worker process: waits for orders, does them for one client at a time, answers.

The `processes` engine starts it.
"""

from __future__ import annotations

import traceback
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection

import torch

from pfedul.base.tensorfile import read_file
from pfedul.base.tensors import Tensors
from pfedul.base.threads import warm_up
from pfedul.client import Scratch, perform, scratch_of
from pfedul.engine.child import as_child
from pfedul.engine.messages import Answer, Failure, Setup, WorkerOrder, attach_data, make_answer
from pfedul.engine.processes import unpickle_bench
from pfedul.engine.sharedbuffer import SharedBuffer
from pfedul.errors import PfedulError
from pfedul.protocol import Workbench


def serve(
    line: Connection, data: SharedBuffer, shared: SharedBuffer, own: list[SharedBuffer]
) -> None:
    """Answer orders until the engine hangs up."""
    setup: Setup = line.recv()
    try:
        bench, scratch = set_up(setup, data.read(setup.data))
    except Exception as error:
        line.send(failure("Setting up the model and the data", error))
        return
    while True:
        order: WorkerOrder = line.recv()
        line.send(carry_out(order, bench, scratch, shared, own[order.buffer]))


def set_up(setup: Setup, data: Tensors) -> tuple[Workbench, Scratch]:
    """The bench with its data attached, and a model of its own."""
    torch.set_default_dtype(setup.default_dtype)
    warm_up()
    bench = unpickle_bench(setup.bench)
    bench = replace(bench, data=attach_data(bench.data, data))
    return bench, scratch_of(bench)


def carry_out(
    order: WorkerOrder, bench: Workbench, scratch: Scratch, shared: SharedBuffer, own: SharedBuffer
) -> Answer | Failure:
    """The answer to one order; an error in it is returned as a Failure."""
    try:
        personal = {} if order.personal is None else read_file(order.personal)
        tensors = shared.read(order.shared)
        reply = perform(bench, scratch, order.task, order.client, tensors, personal)
        return make_answer(reply, own)
    except Exception as error:
        return failure(f"The work for {order.client}", error)


def failure(what: str, error: Exception) -> Failure:
    """An error in the form in which it can travel."""
    mistake = str(error) if isinstance(error, PfedulError) else None
    return Failure(what, mistake, traceback.format_exc())


def main() -> None:
    """Serve on the descriptors that the command line names."""
    line, (data, shared, *own) = as_child()
    buffers = [SharedBuffer(descriptor) for descriptor in own]
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the engine has hung up
        serve(line, SharedBuffer(data), SharedBuffer(shared), buffers)


if __name__ == "__main__":
    main()
