"""Simulated on Flower and Ray, clients do the same bits, and nothing is left behind."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("ray")
pytest.importorskip("flwr")

from helpers.told import AtProgress
from helpers.toys import Unpicklable, WithNorm, client_data, create, tensor_digests
from pfedul import PfedulError
from pfedul.base.tensorfile import encode
from pfedul.engine import ClientFailure, start_engine
from pfedul.engine import flower as extra
from pfedul.engine.flower.sim_server import ROOM_BYTES, explained, room_for
from pfedul.engine.flower.simulation import FlowerSimulationEngine, SimulationJob
from pfedul.engine.inline import InlineEngine
from pfedul.engine.messages import Failure
from pfedul.personalization import PERSONALIZATIONS
from pfedul.protocol import Task, Workbench

KINDS = [kind.name for kind in PERSONALIZATIONS if kind.prepare is None]
"""Those that can share a model."""

ENGINE = {"engine": "flower-simulation", "workers": 2}


class Mixture:
    """Every personalisation in one bench, so one start of Ray is enough for all.

    A client's name says which is its own.
    """

    def __init__(self, benches: dict[str, Workbench]) -> None:
        self._benches = {kind: replace(bench, data={}) for kind, bench in benches.items()}

    def fit(self, job):
        kind = job.client.partition("-")[0]
        if kind == "faulty":
            raise ZeroDivisionError("from the user's own code")
        bench = self._benches[kind]
        shared = {name: job.shared[name] for name in bench.split.shared}
        own = {"split": bench.split, "head": bench.head, "options": bench.options}
        return bench.personalization.fit(replace(job, shared=shared, **own))


@pytest.fixture(scope="module")
def mixture(tmp_path_factory):
    """A bench with two clients of each personalisation, their files and all tensors."""
    base = tmp_path_factory.mktemp("mixture")
    benches, data, files = {}, {}, {}
    for kind in [*KINDS, "faulty"]:
        chosen = "fedavg" if kind == "faulty" else kind
        with create(base / kind, personalization=chosen) as federation:
            benches[kind] = federation.bench
            for client in federation.clients[:2]:
                data[f"{kind}-{client}"] = federation.bench.data[client]
                files[f"{kind}-{client}"] = federation.locate_personal(client)
    bench = replace(benches["fedavg"], personalization=Mixture(benches), data=data)
    return SimpleNamespace(bench=bench, files=files, shared=bench.build_model().state_dict())


@pytest.fixture(scope="module")
def engine(mixture):
    engine = FlowerSimulationEngine(mixture.bench, workers=2)
    yield engine
    engine.close()


def replies_of(engine, mixture, clients, number=1):
    return list(engine.run(Task("fit", number), clients, mixture.shared, mixture.files.get))


def bits(reply) -> tuple:
    plain = replace(reply, shared={}, personal={}, seconds=0, cpu_seconds=0)
    return plain, encode(reply.shared), encode(reply.personal)


def test_every_personalization_gives_the_bits_of_inline(engine, mixture):
    clients = [client for client in mixture.bench.data if "faulty" not in client][::-1]
    here = replies_of(InlineEngine(mixture.bench), mixture, clients)
    there = replies_of(engine, mixture, clients)
    assert [reply.client for reply in there] == clients
    assert [bits(reply) for reply in there] == [bits(reply) for reply in here]
    assert all(reply.cpu_seconds > 0 for reply in there)


def test_nobody_else_can_reach_the_ray_that_it_starts(engine, mixture):
    replies_of(engine, mixture, ["fedper-c0"])
    listening = {place for pid in descendants() for place in listens_on(pid)}
    assert listening
    assert listening <= {"127.0.0.1"}


def test_an_error_in_a_users_code_is_shown_and_leaves_no_process_behind(engine, mixture):
    replies_of(engine, mixture, ["fedper-c0"])
    started, folder = started_by_it(), engine._simulator.folder
    assert len(started) > 3  # the simulator, Ray's own and the workers
    with pytest.raises(ClientFailure, match=r"(?s)The work for faulty-c0 failed.*user's own code"):
        replies_of(engine, mixture, ["faulty-c0", "fedper-c0"])
    assert_gone(started)
    assert not folder.exists()


def test_train_with_a_killed_worker_and_forget_are_the_same_as_inline(tmp_path):
    killed = []

    def kill_one(_progress):
        if not killed:
            killed.append(next(pid for pid in descendants() if "ClientApp" in name_of(pid)))
            os.kill(killed[0], signal.SIGKILL)

    outcomes = {}
    for engine, at_reply in (("inline", print), ("flower-simulation", kill_one)):
        settings = {"engine": engine, "workers": 1, "rounds": 2, "personalization": "fedrep"}
        with create(tmp_path / engine, **settings) as federation:
            federation.train(callbacks=[AtProgress(at_reply)])
            federation.forget("c0", method="fine-tune:rounds=1,ascent=1")
            outcomes[engine] = federation.forget("c1", correction="reset", layers="all")
    assert killed
    assert tensor_digests(tmp_path / "inline") == tensor_digests(tmp_path / "flower-simulation")
    here, there = outcomes["inline"], outcomes["flower-simulation"]
    for field in ("plan", "erased", "before", "after", "shared_sha256_after", "notes"):
        assert getattr(here, field) == getattr(there, field)
    assert there.stages["recalibration"].cpu_seconds > 0


def test_everything_ends_when_the_engines_process_is_killed(tmp_path):
    """In the middle of a task that would last for days."""
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
from pathlib import Path
from pfedul.client import Task
from helpers.toys import create
settings = {{"engine": "flower-simulation", "workers": 1}}
with create(Path({str(tmp_path / "run")!r}), **settings) as federation:
    federation.evaluate()
    print(federation.engine._simulator.folder, flush=True)
    task = Task("fit", 1, epochs=10**7)
    next(federation.engine.run(task, ["c0"], federation.shared, federation.locate_personal))
"""
    command = [sys.executable, "-c", script]
    usual = tmp_path / "where Ray writes unless told otherwise"
    environment = {**os.environ, "RAY_TMPDIR": str(usual)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        folder = Path(process.stdout.readline().strip())
        time.sleep(0.5)
        started = descendants(process.pid)
        process.kill()
    assert len(started) > 3
    assert_gone(started)
    assert_gone_from_disk(folder)
    assert not usual.exists()


def test_a_worker_that_always_dies_gets_a_sentence_and_the_rest_its_trace():
    died = explained("<class 'ray.exceptions.ActorDiedError'>:<'...'>", "The work for c0")
    assert died.mistake.startswith("The work for c0 ended its worker process 3 times")
    other = explained("no module named x", "The work for c0")
    assert other == Failure("The work for c0", None, "no module named x")


def test_messages_under_way_are_bounded_by_their_size(tmp_path):
    file = tmp_path / "personal"
    file.write_bytes(b"x" * 24)
    small = SimulationJob(Task("fit", 1), ("a", "b"), (file, None), b"y" * 1000)
    assert room_for(small, 2) == ROOM_BYTES // 1024
    large = replace(small, shared=b"y" * (ROOM_BYTES // 4), personal=(None, None))
    assert room_for(large, 8) == 16


@pytest.mark.parametrize("missing", ["flwr", "ray"])
def test_without_the_extra_there_is_one_sentence(missing, mixture, monkeypatch):
    def find(name):
        return None if name == missing else find_spec(name)

    monkeypatch.setattr(extra, "find_spec", find)
    with pytest.raises(PfedulError, match=r"pip install 'pfedul\[flower-simulation\]'"):
        start_engine("flower-simulation", 1, mixture.bench)


def test_what_cannot_be_sent_is_said(tmp_path):
    data = {"a": (Unpicklable(), Unpicklable()), **client_data(2)}
    with (
        create(tmp_path / "run", data=data, model=WithNorm, **ENGINE) as federation,
        pytest.raises(PfedulError, match="use the engine 'inline'"),
    ):
        federation.train()


def test_auto_never_takes_it(mixture):
    for workers in (1, 2):
        engine = start_engine("auto", workers, mixture.bench)
        assert not isinstance(engine, FlowerSimulationEngine)
        engine.close()


# Looking at processes


def started_by_it() -> list[int]:
    """The simulator and what is below it; a fork server of other tests is not."""
    others = [pid for pid in descendants() if "pfedul.engine.forkserver" in name_of(pid)]
    spared = {*others, *(pid for other in others for pid in descendants(other))}
    return [pid for pid in descendants() if pid not in spared]


def descendants(of: int | None = None) -> list[int]:
    """All processes below this one (or another one) that are not dead."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        parent = parent_of(int(folder.name))
        if parent is not None:
            parents[int(folder.name)] = parent
    below, found = {of or os.getpid()}, []
    while below:
        below = {pid for pid, parent in parents.items() if parent in below}
        found += sorted(below)
    return found


def parent_of(pid: int) -> int | None:
    """The parent's number; None for a process that is gone or only waited for."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state == "Z" else int(parent)


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def listens_on(pid: int) -> set[str]:
    """Addresses on which a process listens, IPv4 within IPv6 as IPv4."""
    links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()]
    own = {link[8:-1] for link in links if link.startswith("socket:[")}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in own:
                last = bytes.fromhex(words[1].partition(":")[0][-8:])
                found.add(".".join(str(byte) for byte in reversed(last)))
    return found


def assert_gone_from_disk(folder: Path) -> None:
    """It is removed by a process that waits for the end of all others."""
    deadline = time.monotonic() + 30
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not folder.exists()


def assert_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 30
    while (left := [pid for pid in pids if parent_of(pid) is not None]) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.1)
    assert not left, [name_of(pid) for pid in left]
