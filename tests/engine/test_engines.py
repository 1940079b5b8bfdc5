"""Engines agree to the bit, hand replies back in order and outlive their workers."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.told import AtProgress
from helpers.toys import Unpicklable, WithNorm, client_data, create, reopen, tensor_digests
from pfedul import Federation, PfedulError
from pfedul.engine import ClientFailure, start_engine
from pfedul.engine.processes import ProcessesEngine
from pfedul.engine.sharedbuffer import SharedBuffer, lay_out
from pfedul.protocol import Task


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> dict[str, str]:
    run = tmp_path_factory.mktemp("engines") / "inline"
    with create(run, personalization="fedrep", rounds=2) as federation:
        federation.train()
    return tensor_digests(run)


def test_there_are_no_more_workers_than_clients_and_they_give_the_bits_of_inline(
    reference, tmp_path
):
    """One and two workers are in the tests of workers that die."""
    settings = {"engine": "processes", "workers": 50, "rounds": 2}
    with create(tmp_path / "run", personalization="fedrep", **settings) as federation:
        federation.train()
        assert len(workers_of(federation)) == len(federation.clients)
    assert tensor_digests(tmp_path / "run") == reference


@pytest.mark.parametrize("personalization", ["fedavg", "ditto", "fedbn"])
def test_engines_agree_for_every_kind_of_personal_part(personalization, tmp_path):
    for engine in ("inline", "processes"):
        settings = {"engine": engine, "workers": 1, "rounds": 2}
        with create(tmp_path / engine, personalization=personalization, **settings) as federation:
            federation.train()
    assert tensor_digests(tmp_path / "inline") == tensor_digests(tmp_path / "processes")


def workers_of(federation: Federation) -> list:
    assert isinstance(federation.engine, ProcessesEngine)
    return federation.engine._workers


def test_a_killed_worker_is_replaced_and_the_run_ends_the_same(reference, tmp_path):
    killed = []

    def kill_one(progress):
        if len(killed) < 2 and progress.loss is None:
            killed.append(workers_of(federation)[0].child.process.pid)
            os.kill(killed[-1], signal.SIGKILL)

    settings = {"engine": "processes", "workers": 2, "rounds": 2}
    with create(tmp_path / "run", personalization="fedrep", **settings) as federation:
        federation.train(callbacks=[AtProgress(kill_one)])
    assert len(killed) == 2
    assert tensor_digests(tmp_path / "run") == reference


def test_a_worker_that_dies_between_rounds_is_replaced(reference, tmp_path):
    def kill_all(progress):
        if progress.round == 1 and progress.loss is not None:
            for worker in workers_of(federation):
                os.kill(worker.child.process.pid, signal.SIGKILL)
                worker.child.process.wait()

    settings = {"engine": "processes", "workers": 1, "rounds": 2}
    with create(tmp_path / "run", personalization="fedrep", **settings) as federation:
        federation.train(callbacks=[AtProgress(kill_all)])
    assert tensor_digests(tmp_path / "run") == reference


def test_workers_end_at_once_when_the_engines_process_is_killed(tmp_path):
    """Even in the middle of a long task, and so do the server that forked them and the minders."""
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
from pathlib import Path
from helpers.toys import create
with create(Path({str(tmp_path / "run")!r}), engine="processes", workers=1) as federation:
    federation.evaluate()
    from pfedul.engine import forking
    worker = federation.engine._workers[0].child.process.pid
    minder = Path(f"/proc/{{worker}}/stat").read_text().rpartition(")")[2].split()[1]
    print(worker, minder, forking._servers[0].process.pid, flush=True)
    from pfedul.client import Task
    run = federation.engine.run(
        Task("fit", 1, epochs=10**6), ["c0"], federation.shared, federation.locate_personal
    )
    next(run)
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        processes = [int(word) for word in process.stdout.readline().split()]
        time.sleep(0.5)
        process.kill()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and any(map(_is_running, processes)):
        time.sleep(0.05)
    assert len(processes) == 3
    assert not any(map(_is_running, processes))


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


class Deadly(WithNorm):
    """A model that ends the process it is trained in (after the check of its output)."""

    def forward(self, x):
        if self.training:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(x)


def test_work_that_always_kills_its_worker_is_given_up_with_a_sentence(tmp_path):
    settings = {"model": Deadly, "engine": "processes", "workers": 1}
    with (
        create(tmp_path / "run", **settings) as federation,
        pytest.raises(PfedulError, match="ended its worker process 3 times"),
    ):
        federation.train()


class BadInWorker(WithNorm):
    """Can be pickled here and not be read there."""

    def __reduce__(self):
        return (eval, ("1 / 0",))


def test_a_worker_that_cannot_be_set_up_says_why(tmp_path):
    model = BadInWorker()

    def factory():
        return model if isinstance(model, WithNorm) else WithNorm()

    with (
        create(tmp_path / "run", model=factory, engine="processes", workers=1) as federation,
        pytest.raises(ClientFailure, match="division by zero"),
    ):
        federation.evaluate()


class Counting(WithNorm):
    """Has dropout, and counts in a buffer that no state dict holds."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()), persistent=False)

    def forward(self, x):
        self.seen += 1
        return self.head(torch.dropout(self.body(x), 0.5, self.training)) + self.seen / 10


def test_dropout_is_the_same_everywhere_and_no_buffer_leaks(tmp_path):
    for engine in ("inline", "processes"):
        settings = {"model": Counting, "engine": engine, "workers": 2}
        with create(tmp_path / engine, **settings) as federation:
            federation.train()
    assert tensor_digests(tmp_path / "inline") == tensor_digests(tmp_path / "processes")


class Faulty(WithNorm):
    def forward(self, x):
        if self.training:
            raise ZeroDivisionError("from the user's own code")
        return super().forward(x)


def test_an_error_in_a_users_model_is_shown_with_its_trace(tmp_path):
    settings = {"model": Faulty, "engine": "processes", "workers": 1}
    with (
        create(tmp_path / "run", **settings) as federation,
        pytest.raises(ClientFailure, match="from the user's own code"),
    ):
        federation.train()


def test_a_run_left_half_way_does_not_disturb_the_next_and_workers_end_with_the_engine(tmp_path):
    with create(tmp_path / "run", engine="processes", workers=2) as federation:
        arguments = (federation.clients, federation.shared, federation.locate_personal)
        half = federation.engine.run(Task("fit", 1), *arguments)
        next(half)
        half.close()
        replies = list(federation.engine.run(Task("evaluate", 1), *arguments))
        pids = [worker.child.process.pid for worker in workers_of(federation)]
    assert [reply.client for reply in replies] == federation.clients
    assert all("accuracy" in reply.metrics for reply in replies)
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_an_unknown_engine_is_refused(tmp_path):
    with (
        create(tmp_path / "run") as federation,
        pytest.raises(PfedulError, match="known are: auto, inline, processes"),
    ):
        start_engine("quantum", 1, federation.bench)


def test_what_cannot_be_sent_to_workers_is_said(tmp_path):
    data = {"a": (Unpicklable(), Unpicklable()), **client_data(2)}
    with (
        create(tmp_path / "run", data=data, engine="processes", workers=1) as federation,
        pytest.raises(PfedulError, match="cannot be sent to worker processes"),
    ):
        federation.train()


def test_a_users_dataset_with_random_transforms_is_reproducible(tmp_path):
    class Noisy(torch.utils.data.Dataset):
        def __len__(self):
            return 12

        def __getitem__(self, index):
            noise = torch.randn(4) + random.random() + np.random.rand()
            return noise + index % 3, index % 3

    data = {"a": (Noisy(), Noisy()), "b": (Noisy(), Noisy())}
    for engine in ("inline", "processes"):
        with create(tmp_path / engine, data=data, engine=engine, workers=1) as federation:
            federation.train()
    assert tensor_digests(tmp_path / "inline") == tensor_digests(tmp_path / "processes")


def test_a_buffer_grows_and_its_views_are_not_copies():
    buffer = SharedBuffer()
    small = buffer.write({"a": torch.arange(3)})
    assert buffer.read(small)["a"].tolist() == [0, 1, 2]
    tensors = {"x": torch.ones(1000), "n": torch.tensor(7), "none": torch.zeros(0, 4)}
    layout = buffer.write(tensors)
    views = buffer.read(layout)
    assert all(torch.equal(views[name], tensor) for name, tensor in tensors.items())
    buffer.write({"x": torch.zeros(1000)})
    assert views["x"].sum() == 0
    buffer.close()
    assert views["x"].sum() == 0  # the memory lasts as long as a view of it


def test_places_are_aligned_and_do_not_overlap():
    layout, size = lay_out({"a": torch.zeros(3), "b": torch.zeros(5, dtype=torch.int64)})
    assert layout["a"].offset == 0
    assert layout["b"].offset == 64
    assert size == 128


def test_a_run_can_go_on_with_another_engine(reference, tmp_path):
    with create(tmp_path / "run", personalization="fedrep", rounds=1) as federation:
        federation.train()
    with reopen(tmp_path / "run", engine="processes", workers=1) as federation:
        federation.train(2)
    assert tensor_digests(tmp_path / "run") == reference
