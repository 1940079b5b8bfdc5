"""What a round costs on each engine: processes, Flower's simulation, a real deployment.

    python bench/engines.py [--rounds 3] [--auto] [--write]

The same small federation (digits, three clients, a CNN) is trained on every
engine, in turn. A round's cost is the difference between a call that plays
`rounds` + 1 rounds and a call that plays one, so starting and stopping are
left out. CPU time is that of all processes of the engine, which are found by a
variable in their environment. `--auto` measures whole runs instead, starting included, to see
what the engine `auto` takes. `--write` puts the table into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speed import PAGE, machine, write_page

MARK = "PFEDUL_BENCH"
WORK: dict[str, Any] = {
    "clients": 3,
    "samples": 1200,
    "local_epochs": 2,
    "evaluate_every": 0,
    "model": "cnn",
}
LOCAL = ("inline", "processes", "flower-simulation")


@dataclass(frozen=True)
class Cost:
    """Seconds on the clock and of CPU time."""

    wall: float
    cpu: float

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.wall - other.wall, self.cpu - other.cpu)


def cost_now() -> Cost:
    return Cost(time.perf_counter(), sum(map(_cpu_of, _marked())))


def _marked() -> list[Path]:
    """All processes with the mark of this bench, this one included."""
    mark = f"{MARK}={os.environ[MARK]}".encode()
    found = [Path("/proc/self")]
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(folder.name) != os.getpid() and mark in (folder / "environ").read_bytes():
                found.append(folder)
    return found


def _cpu_of(folder: Path) -> float:
    """CPU seconds of a process and of its children that have ended."""
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def local_costs(engine: str, rounds: int) -> Cost:
    """A round on an engine of this machine."""
    from pfedul import Federation

    with (
        tempfile.TemporaryDirectory() as folder,
        Federation.create(
            Path(folder) / "run", rounds=1, **{**WORK, "engine": engine}
        ) as federation,
    ):
        federation.train()  # starts the engine
        one = _spent(lambda: federation.train(2))
        more = _spent(lambda: federation.train(3 + rounds))
    return _per_round(more, one, rounds)


def _spent(work: Callable[[], object]) -> Cost:
    before = cost_now()
    work()
    return cost_now() - before


def _per_round(more: Cost, one: Cost, rounds: int) -> Cost:
    return Cost((more.wall - one.wall) / rounds, (more.cpu - one.cpu) / rounds)


@contextmanager
def deployed(run: Path) -> Iterator[Path]:
    """A deployment of three nodes."""
    command = [sys.executable, "-m", "pfedul", "up", str(run), "--nodes", "3"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    try:
        yield run / "deployment"
    finally:
        command = [sys.executable, "-m", "pfedul", "down", str(run)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def deployment_costs(rounds: int) -> tuple[Cost, float]:
    """A round on a deployment, and the seconds that a client's own work takes of it."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        with deployed(run) as deployment:
            _flwr_run(deployment, 1)
            one = _spent(lambda: _flwr_run(deployment, 2))
            more = _spent(lambda: _flwr_run(deployment, 3 + rounds))
        return _per_round(more, one, rounds), _longest_work(run)


def _flwr_run(deployment: Path, rounds: int) -> None:
    words = {key.replace("_", "-"): value for key, value in {**WORK, "rounds": rounds}.items()}
    config = " ".join(f'{k}="{v}"' if isinstance(v, str) else f"{k}={v}" for k, v in words.items())
    command = [str(deployment / "flwr"), "run", str(deployment / "app"), "pfedul", "--stream"]
    done = subprocess.run([*command, "-c", config], capture_output=True, text=True, check=True)
    if f"round {rounds}/{rounds}" not in done.stdout + done.stderr:
        raise SystemExit(f"The deployment did not train:\n{done.stdout}\n{done.stderr}")


def _longest_work(run: Path) -> float:
    """Median over rounds of the slowest client's CPU seconds, without its start and imports."""
    with sqlite3.connect(run / "ledger.db") as ledger:
        rows = ledger.execute("SELECT MAX(cpu_seconds) FROM replies GROUP BY round").fetchall()
    return float(statistics.median(seconds for (seconds,) in rows))


RUNS: dict[str, dict[str, Any]] = {
    "small: mlp, 300 samples, 5 rounds": {
        "clients": 3,
        "samples": 300,
        "local_epochs": 2,
        "model": "mlp",
        "rounds": 5,
    },
    "large: cnn, 1,200 samples, 40 rounds": {**WORK, "clients": 4, "rounds": 40},
}
"""Whole runs, each in a new process: what `auto` must choose for."""

TRAINED = """
import json, sys, tempfile, time
from pfedul import Federation
settings = json.loads(sys.argv[1])
with tempfile.TemporaryDirectory() as folder:
    started = time.perf_counter()
    with Federation.create(folder + "/run", **settings) as federation:
        federation.train()
        name = type(federation.engine).__name__
    print(json.dumps([time.perf_counter() - started, name]))
"""


def whole_runs(repeats: int = 3) -> str:
    """Each run on each engine, starting included, in turn; the fastest of the repeats."""
    head = ("run", "inline", "processes", "auto", "auto takes")
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, settings in RUNS.items():
        times: dict[str, list[float]] = {"inline": [], "processes": [], "auto": []}
        for _ in range(repeats):
            for engine, seconds in times.items():
                words = json.dumps({**settings, "engine": engine})
                command = [sys.executable, "-c", TRAINED, words]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                spent, chosen = json.loads(done.stdout)
                seconds.append(spent)
        best = {engine: min(seconds) for engine, seconds in times.items()}
        unit = min(best["inline"], best["processes"])
        figures = " | ".join(f"{seconds / unit:.2f}" for seconds in best.values())
        lines.append(f"| {name} | {figures} | {chosen} |")
    return "\n".join(lines) + "\n"


def import_seconds() -> float:
    """Seconds that a client's process needs to import everything, with no other load."""
    times = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import pfedul.flower.client"], check=True)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def table(rounds: int) -> str:
    costs = {engine: local_costs(engine, rounds) for engine in LOCAL}
    costs["deployment, 3 nodes"], work = deployment_costs(rounds)
    unit = costs["processes"]
    lines = ["| engine | round time, processes = 1 | CPU time, processes = 1 |", "|---|---|---|"]
    for engine, cost in costs.items():
        lines.append(f"| {engine} | {cost.wall / unit.wall:.1f} | {cost.cpu / unit.cpu:.1f} |")
    return "\n".join(lines) + "\n\n" + where_it_goes(costs["deployment, 3 nodes"].wall, work)


def where_it_goes(whole: float, work: float) -> str:
    """Shares of a round. Three clients import at a time on two cores, which takes 1.5 times."""
    imports = 1.5 * import_seconds()
    return (
        "In a round of the deployment the slowest client's own work takes about "
        f"{work / whole:.0%} of the time, and importing torch, flwr and pfedul "
        f"{imports / whole:.0%}, as Flower starts a process for every message. The rest is "
        "Flower, which looks for new tasks and messages every few seconds, at the server and at "
        "each node.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--auto", action="store_true")
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    os.environ.setdefault(MARK, uuid.uuid4().hex)
    text = f"Measured on {machine()}\n\n{whole_runs() if chosen.auto else table(chosen.rounds)}"
    print(text)
    if chosen.write:
        write_page(PAGE, "auto-engine" if chosen.auto else "engines", text)


if __name__ == "__main__":
    main()
