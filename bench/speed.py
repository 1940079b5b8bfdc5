"""Training speed: a bare loop, pfedul inline, pfedul with two workers, and pfl, in one run.

    python bench/speed.py [--rounds 8] [--write]

    python bench/speed.py --recording [--write]

Every contender is a process of its own that does one round when asked. The
driver asks them in turn, so all run under the same load, and
prints ratios of medians. `pfl` is installed into an environment of its own.
`--recording` measures something else: what the records cost that are kept for forgetting, as a
share of the time of rounds. `--write` puts the tables into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from contender import random_clients
from pfedul import Federation
from pfedul.base.text import human_bytes
from pfedul.models import build_model
from pfedul.status import read_status

HERE = Path(__file__).parent
ROOT = HERE.parent
PFL_VENV = HERE / ".pfl-venv"
PFL_VERSION = "0.6.0"
PAGE = ROOT / "docs/benchmarks.md"

Costs = dict[str, list[dict[str, float]]]


@dataclass(frozen=True)
class Workload:
    """Which model, and how much of it each round trains."""

    model: str
    clients: int = 4
    samples: int = 256
    batch_size: int = 32


def install_pfl() -> Path:
    """A virtual environment with pfl and, for the models, pfedul; returns its python."""
    python = PFL_VENV / "bin/python"
    if not (PFL_VENV / ".ready").exists():
        print("installing pfl into its own environment ...", file=sys.stderr)
        constraint = ["-c", str(ROOT / "constraints.txt")]
        pip = [str(python), "-m", "pip", "install", "--quiet", *constraint]
        subprocess.run([sys.executable, "-m", "venv", str(PFL_VENV)], check=True)
        subprocess.run([*pip, "torch"], check=True)
        subprocess.run([*pip, "-e", str(ROOT), f"pfl=={PFL_VERSION}"], check=True)
        (PFL_VENV / ".ready").touch()
    return python


def commands(work: Workload) -> dict[str, list[str]]:
    """The command of each contender."""
    size = ["--model", work.model, "--clients", str(work.clients), "--samples", str(work.samples)]
    size += ["--batch-size", str(work.batch_size)]
    ours = {
        side: [sys.executable, str(HERE / "contender.py"), side, *size]
        for side in ("bare", "inline", "workers")
    }
    peer = [str(install_pfl()), str(HERE / "pfl_peer.py"), *size, "--threads", "1"]
    return {**ours, "pfl": [*peer, "--model-file", str(HERE / "models.py"), "--serve"]}


def measure(work: Workload, rounds: int) -> Costs:
    """Every contender's cost of each round; the first two rounds are warm-up."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    processes = {
        name: subprocess.Popen(
            command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for name, command in commands(work).items()
    }
    costs: Costs = {name: [] for name in processes}
    for number in range(rounds + 2):
        for name, process in processes.items():
            costs[name].append(one_round(process))
            print(f"{work.model} round {number} {name} {costs[name][-1]}", file=sys.stderr)
    for process in processes.values():
        process.communicate()
    return {name: values[2:] for name, values in costs.items()}


def one_round(process: subprocess.Popen[str]) -> dict[str, float]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("round\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    return {
        "wall": answer.get("wall", answer.get("wall_seconds")),
        "cpu": answer.get("cpu", answer.get("cpu_seconds")),
    }


def ratios(costs: Costs, kind: str, over: str) -> dict[str, float]:
    """Each contender's median cost as a multiple of that of `over`."""
    medians = {
        name: statistics.median(value[kind] for value in values) for name, values in costs.items()
    }
    return {name: median / medians[over] for name, median in medians.items()}


NAMES = {
    "bare": "bare PyTorch loop (local training only)",
    "inline": "pfedul, inline",
    "workers": "pfedul, 2 workers",
    "pfl": f"pfl {PFL_VERSION} (FedAvg)",
}


def table(work: Workload, costs: Costs) -> str:
    """Ratios to the bare loop in CPU time, and throughput against inline in wall time."""
    cpu, wall = ratios(costs, "cpu", "bare"), ratios(costs, "wall", "inline")
    lines = [
        f"### {work.model}: {work.clients} clients x {work.samples} images of 3 x 32 x 32, "
        f"batch {work.batch_size}",
        "",
        "| | CPU time, bare loop = 1 | spread of single rounds | throughput, inline = 1 |",
        "|---|---|---|---|",
    ]
    for name, words in NAMES.items():
        values = [value["cpu"] for value in costs[name]]
        spread = (max(values) - min(values)) / statistics.median(values)
        lines.append(f"| {words} | {cpu[name]:.3f} | {spread:.0%} | {1 / wall[name]:.2f} |")
    return "\n".join(lines) + "\n"


def machine() -> str:
    """What the numbers were measured on."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return (
        f"{os.cpu_count()} cores ({model}), Python {platform.python_version()}, "
        f"torch {torch.__version__}, one thread a process."
    )


def write_page(page: Path, part: str, text: str) -> None:
    """Replace the measured part of a page of the docs, which stands between two comments."""
    start, end = f"<!-- {part}: start -->\n", f"<!-- {part}: end -->\n"
    known = page.read_text(encoding="utf-8")
    before, after = known.split(start)[0], known.split(end)[1]
    page.write_text(f"{before}{start}{text}{end}{after}", encoding="utf-8")


RECORDS = ("contributions", "fisher", "fisher+contributions")
RECORDED = {"personalization": "fedper", "lr": 0.02, "local_epochs": 3, "evaluate_every": 0}


def recording(rounds: int) -> str:
    """What `pfedul status` says of each record, on ten clients with 250 images each."""
    lines = ["| record | share of round time | bytes |", "|---|---:|---:|"]
    for record in RECORDS:
        with TemporaryDirectory() as folder:
            run, data = Path(folder) / "run", random_clients(10, 250)
            how: dict[str, Any] = {**RECORDED, "rounds": rounds, "engine": "inline"}
            model = partial(build_model, QUARTER, (3, 32, 32), 10)
            with Federation.create(run, data=data, model=model, record=record, **how) as made:
                made.train()
            status = read_status(run)
        size = human_bytes(sum(one["bytes"] for one in status["records"].values()))
        lines.append(f"| {record} | {status['cost']['record_share']:.1%} | {size} |")
    return "\n".join(lines) + "\n"


QUARTER = "resnet18:width=16,stem=imagenet"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--recording", action="store_true", help="the cost of records alone")
    parser.add_argument("--write", action="store_true", help="update docs/benchmarks.md")
    chosen = parser.parse_args()
    if chosen.recording:
        text = f"Measured on {machine()}\n\n{recording(chosen.rounds)}"
        print(text)
        if chosen.write:
            write_page(PAGE, "recording", text)
        return
    parts = [f"Measured on {machine()}\n"]
    for model, rounds in (("resnet18", chosen.rounds), ("cnn", 3 * chosen.rounds)):
        work = Workload(model)
        parts.append(table(work, measure(work, rounds)))
    text = "\n".join(parts)
    print(text)
    if chosen.write:
        write_page(PAGE, "speed", text)


if __name__ == "__main__":
    main()
