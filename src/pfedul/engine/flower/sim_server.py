"""The process in which Flower's simulation and its Ray live for the `flower-simulation` engine.

Started as `python -m pfedul.engine.flower.sim_server`. Flower's server takes jobs from the
engine, sends them out over Flower's grid and hands the replies back in order.
"""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

import ray
import torch
from flwr.app import Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from pfedul.base.tensorfile import decode, read_file
from pfedul.engine.child import as_child
from pfedul.engine.flower.sim_client import FAILURE, client_app
from pfedul.engine.flower.simulation import CLUSTER, FOLDER, SimulationJob, Start
from pfedul.engine.flower.wire import MESSAGE_TYPES, NodeOrder, open_reply, open_words, pack_order
from pfedul.engine.messages import Failure
from pfedul.engine.processes import ATTEMPTS
from pfedul.engine.sharedbuffer import Place, SharedBuffer
from pfedul.engine.worker import failure
from pfedul.protocol import Reply

ACTOR: dict[str, Any] = {
    "num_cpus": 1,
    "num_gpus": 0.0,
    "max_restarts": -1,
    "max_task_retries": ATTEMPTS - 1,
}
"""Ray's options of a worker process. One that dies is replaced and its work done again."""

PULL_SECONDS = 0.02
"""Flower's in-memory grid has to be polled."""

ROOM_BYTES = 256 * 2**20
"""Bytes of messages that may be in flight, beyond those that keep every worker busy."""

DEATHS = ("ActorDied", "ActorUnavailable", "OutOfMemory", "WorkerCrashed")
"""Ray's names for the end of a worker process."""

_untyped_ray: Any = ray
_ENDING = threading.Lock()
_GROUP = os.getpgrp()


class Line:
    """The line to the engine; Flower's server and the main thread may both want to speak."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._turn = threading.Lock()

    def send(self, message: Reply | Failure | None) -> None:
        # Pickled here: `send` would put tensors into memory that this process must serve.
        data = pickle.dumps(message)
        with self._turn:
            self._connection.send_bytes(data)

    def receive(self) -> Any:
        return self._connection.recv()


def simulate(line: Line, data: SharedBuffer, start: Start) -> None:
    """Run Flower's simulation until the engine hangs up."""
    with group_of_its_own():
        join_ray(start)
    await_cpus()
    size = os.fstat(data.descriptor).st_size
    memory = data.read({"all": Place(torch.uint8, (size,), 0)})["all"].numpy()
    bench = ray.put((start.setup, memory))
    server = ServerApp()

    @server.main()
    def serve(grid: Grid, _context: Context) -> None:
        with suppress(EOFError, OSError):  # the engine has hung up
            serve_jobs(grid, line, start)
        end()  # to return would let Flower wait until its clients are done

    resources = {"client_resources": ACTOR}
    run_simulation(server, client_app(bench), len(start.clients), backend_config=resources)


@contextmanager
def group_of_its_own() -> Iterator[None]:
    """What is started in the block, and by that in turn, is a process group under our number."""
    os.setpgid(0, 0)
    yield
    os.setpgid(0, _GROUP)


def join_ray(start: Start) -> None:
    """The cluster that RAY_ADDRESS names, or a Ray of our own on this machine alone."""
    quiet: dict[str, Any] = {"logging_level": logging.CRITICAL, "log_to_driver": False}
    if os.environ.get(CLUSTER):
        path = {"PYTHONPATH": os.environ["PYTHONPATH"]}
        ray.init(runtime_env={"env_vars": path}, **quiet)
        return
    ray.init(
        num_cpus=start.workers,
        num_gpus=0,
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        # One level below: Ray opens its folder to everybody.
        _temp_dir=os.path.join(os.environ[FOLDER], "r"),
        **quiet,
    )


def await_cpus() -> None:
    """Flower makes a worker for every CPU of a cluster: one that is taken would wait for ever."""
    while int(_untyped_ray.available_resources().get("CPU", 0)) < max(1, count_cpus()):
        time.sleep(0.2)


def count_cpus() -> int:
    return sum(int(node["Resources"].get("CPU", 0)) for node in _untyped_ray.nodes())


def serve_jobs(grid: Grid, line: Line, start: Start) -> None:
    """Do the engine's jobs, one after the other."""
    nodes = await_nodes(grid, start.clients)
    line.send(greet(grid, nodes[start.clients[0]]))
    cpus = count_cpus()
    while True:
        job: SimulationJob = line.receive()
        for answer in Desk(grid, nodes, job, room_for(job, cpus)).answers():
            line.send(answer)


def await_nodes(grid: Grid, clients: tuple[str, ...]) -> dict[str, int]:
    """A node for each client; Flower starts its server before its nodes."""
    while len(nodes := sorted(grid.get_node_ids())) < len(clients):
        time.sleep(PULL_SECONDS)
    return dict(zip(clients, nodes, strict=True))


def greet(grid: Grid, node: int) -> Failure | None:
    """Have one worker set up, so a fault that all of them have is known at once."""
    message = Message(RecordDict(), node, MESSAGE_TYPES["hello"])
    [reply] = grid.send_and_receive([message])
    return failure_in(reply, "Setting up the model and the data")


class Desk:
    """Sends one job's orders out over Flower's grid and gathers the replies."""

    def __init__(self, grid: Grid, nodes: dict[str, int], job: SimulationJob, room: int) -> None:
        self._grid, self._nodes, self._job, self._room = grid, nodes, job, room
        self._shared = decode(job.shared)
        self._waiting = deque(zip(job.clients, job.personal, strict=True))
        self._sent: dict[str, str] = {}
        self._done: dict[str, Reply | Failure] = {}

    def answers(self) -> Iterator[Reply | Failure]:
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
            order = NodeOrder(self._job.task, client, shared=self._shared, personal=personal)
            message_type = MESSAGE_TYPES[order.task.action]
            [number] = self._grid.push_messages(
                [Message(pack_order(order), self._nodes[client], message_type)]
            )
            self._sent[number] = client

    def _collect(self) -> None:
        replies = list(self._grid.pull_messages(self._sent))
        for message in replies:
            client = self._sent.pop(message.metadata.reply_to_message_id)
            failed = failure_in(message, f"The work for {client}")
            self._done[client] = failed or open_reply(message.content)
        if not replies:
            time.sleep(PULL_SECONDS)


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


def room_for(job: SimulationJob, cpus: int) -> int:
    """Messages that may be under way: every worker's next one, and more if they are small."""
    files = [file.stat().st_size for file in job.personal if file is not None]
    largest = len(job.shared) + max(files, default=0)
    return max(2 * cpus, ROOM_BYTES // largest)


def end() -> None:
    """End Ray and this process without waiting for Flower's threads.

    A Ray of our own is killed: `ray.shutdown` crashes where a thread waits for a client's
    result, and leaves some of Ray's processes behind then.
    """
    with _ENDING:  # several threads may want to; the first ends all
        with suppress(OSError):  # Ray may not be up yet, and we in its group
            os.setpgid(0, _GROUP)
        with suppress(ProcessLookupError):  # the Ray of a cluster is in no group of ours
            os.killpg(os.getpid(), signal.SIGKILL)
        with suppress(ChildProcessError):  # until there is no child any more
            while True:
                os.wait()
        shutil.rmtree(os.environ[FOLDER], ignore_errors=True)
        if os.environ.get(CLUSTER):  # which then need not find out; a crash would end us as well
            ray.shutdown()
        os._exit(0)


def remove_folder_after_us() -> None:
    """Have the folder removed when this process ends, even if a dying Ray takes it along.

    The process that waits for our end of a pipe to close is not our child, because `end`
    waits for all of those.
    """
    told, _ours = os.pipe()
    script = f'(cat <&{told} >/dev/null; sleep 1; rm -rf -- "$1") </dev/null >/dev/null 2>&1 &'
    command = ["/bin/sh", "-c", script, "sh", os.environ[FOLDER]]
    subprocess.run(command, pass_fds=[told], start_new_session=True, check=False)
    os.close(told)


def main() -> None:
    """Serve on the descriptors that the command line names."""
    logging.getLogger("flwr").setLevel(logging.CRITICAL)  # what matters is told to the engine
    remove_folder_after_us()
    connection, [data] = as_child(end)
    line = Line(connection)
    try:
        simulate(line, SharedBuffer(data), line.receive())
    except Exception as error:
        with suppress(OSError):  # the engine has hung up
            line.send(failure("Flower's simulation", error))
    end()


if __name__ == "__main__":
    main()
