"""One contender of the speed bench: waits for a line, does one round, says what it cost.

    python contender.py bare|inline|workers --model cnn --clients 4 --samples 256

`bare` is the lower bound: the local training of a round in plain PyTorch, without
aggregation, checks or storage. `inline` and `workers` (two processes) are whole
rounds of pfedul: train, check, aggregate, commit to disk; no records for
forgetting are kept, as the peers keep none. All three take shuffled batches, one
thread a process and plain SGD, without evaluation.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from models import build
from pfedul import Callback, Federation, Progress

FOREVER = 1_000_000


def random_clients(clients: int, samples: int) -> dict[str, tuple[Any, Any]]:
    """Random images and labels, the same for every contender."""
    generator = torch.Generator().manual_seed(0)
    data = {}
    for index in range(clients):
        x = torch.randn(samples, 3, 32, 32, generator=generator)
        y = torch.randint(0, 10, (samples,), generator=generator)
        data[f"c{index}"] = ((x, y), (x[:2], y[:2]))
    return data


class Meter:
    """Measures from the moment a line is read to the moment the round is reported."""

    def wait(self) -> None:
        """Block until the driver asks for a round; end the process when it hangs up."""
        if not sys.stdin.readline():
            sys.exit(0)
        self._wall, self._cpu = time.perf_counter(), own_cpu()

    def report(self, workers_cpu: float = 0.0) -> None:
        wall, cpu = time.perf_counter() - self._wall, own_cpu() - self._cpu
        print(json.dumps({"wall": wall, "cpu": cpu + workers_cpu}), flush=True)


def own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run_bare(name: str, data: dict[str, Any], batch_size: int, meter: Meter) -> None:
    torch.set_num_threads(1)
    model = build(name)
    start = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    while True:
        meter.wait()
        for (x, y), _ in data.values():
            model.load_state_dict(start)
            train_bare(model, x, y, batch_size)
        meter.report()


def train_bare(model: torch.nn.Module, x: Tensor, y: Tensor, batch_size: int) -> None:
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for indices in torch.split(torch.randperm(len(y)), batch_size):
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(F.cross_entropy(model(x[indices]), y[indices]))
        optimizer.step()


def run_pfedul(
    name: str, data: dict[str, Any], batch_size: int, meter: Meter, settings: dict[str, Any]
) -> None:
    """Rounds of one long run; the commit of a round falls into the next one's measurement."""
    common: dict[str, Any] = {
        "lr": 0.01,
        "momentum": 0.0,
        "local_epochs": 1,
        "batch_size": batch_size,
    }
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        federation = Federation.create(
            run,
            data=data,
            model=partial(build, name),
            personalization="fedavg",
            evaluate_every=0,
            record="none",
            **common,
            **settings,
        )
        before = workers_cpu(federation)

        class Metered(Callback):
            def on_round(self, _progress: Progress) -> None:
                nonlocal before
                after = workers_cpu(federation)
                meter.report(after - before)
                meter.wait()
                before = after

        with federation:
            meter.wait()
            federation.train(FOREVER, [Metered()])


def workers_cpu(federation: Federation) -> float:
    """CPU seconds of the worker processes so far, as the system counts them."""
    workers = getattr(federation._engine, "_workers", [])
    return sum(process_cpu(worker.process.pid) for worker in workers)


def process_cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / 100


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=["bare", "inline", "workers"])
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--batch-size", type=int, default=32)
    chosen = parser.parse_args()
    data, meter = random_clients(chosen.clients, chosen.samples), Meter()
    if chosen.side == "bare":
        run_bare(chosen.model, data, chosen.batch_size, meter)
    engine: dict[str, Any] = {"engine": "inline"}
    if chosen.side == "workers":
        engine = {"engine": "processes", "workers": 2}
    run_pfedul(chosen.model, data, chosen.batch_size, meter, engine)


if __name__ == "__main__":
    main()
