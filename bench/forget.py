"""What forgetting costs: against a forward pass and against retraining.

    python bench/forget.py [--write]

1. Stages 1 and 2 (attribution, selection, correction) on ResNet-18, against one
   forward pass over the samples of one client.
2. Stage 3 (recalibration of the head) against a plain forward pass over the same
   samples.
3. A whole `forget` against retraining the same run without the target, in CPU
   time, for the four personalisations. The limit is what one forward pass against
   T rounds of E epochs of training allows: about 3 * T * E.

`--write` puts the tables into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pfedul import Federation
from pfedul.base.inputs import single
from pfedul.base.registry import NoOptions
from pfedul.base.tensors import Tensors, load_tensors, read_tensors
from pfedul.base.threads import one_thread
from pfedul.data.samples import TensorSamples
from pfedul.models.resnet import resnet18
from pfedul.personalization import Job, LocalTraining, Recalibration
from pfedul.personalization.fedper import FEDPER
from pfedul.records.fisher import FisherRecord
from pfedul.split import Split, split_head
from pfedul.unlearn import Plan, PlanOptions, plan_removal
from speed import PAGE, machine, write_page

REPEATS = 15


def median_seconds(work: Callable[[], object]) -> float:
    """Median CPU seconds of a piece of work, after one warm-up."""
    work()
    return statistics.median(cpu_seconds(work) for _ in range(REPEATS))


def recorded(split: Split, shared: Tensors) -> FisherRecord:
    """A record of three clients; the first shaped the late layers more than the others did."""
    torch.manual_seed(0)
    record = FisherRecord(split.layers)
    for number in range(3):
        update = {}
        for depth, layer in enumerate(split.layers):
            size = 1.0 + (depth if number == 0 else 0) / len(split.layers)
            for name in layer.tensors:
                update[name] = size * torch.randn_like(shared[name])
        record.add(f"c{number}", update)
    return record


class Summed:
    """A record with a precomputed sum, as in a run folder."""

    def __init__(self, record: FisherRecord) -> None:
        self.layers, self.clients = record.layers, record.clients
        self._own = {client: record.of(client) for client in record.clients}
        self._total = record.total()

    def of(self, client: str) -> Tensors:
        return self._own[client]

    def total(self) -> Tensors:
        return self._total


def plan_table() -> str:
    """Stages 1 and 2 against one forward pass over one client's images."""
    model, images = resnet18(stem="imagenet"), client_images()
    split = split_head(model)
    shared = read_tensors(model, split.shared)
    initial = {name: tensor * 0.9 for name, tensor in shared.items()}
    fisher = Summed(recorded(split, shared))
    lines = [
        "| stages 1 and 2 | layers chosen | CPU time, one forward pass = 1 |",
        "|---|---|---|",
    ]

    def plan(options: PlanOptions) -> Plan:
        made = plan_removal(fisher, shared, initial, "c0", options=options, lr=0.01)
        made.apply(shared)
        return made

    with one_thread():
        forward = median_seconds(partial(one_pass, model, images))
        for correction, layers in product(("paper", "trust-region", "reset"), ("high", "all")):
            options = PlanOptions(correction=correction, layers=layers)
            chosen = plan(options)
            spent = median_seconds(partial(plan, options)) / forward
            count = f"{len(chosen.selected)} of {len(chosen.layers)}"
            lines.append(f"| {correction} | {count} | {spent:.2f} |")
    return "\n".join(lines) + "\n"


def client_images() -> TensorSamples:
    """About as many images as one of a hundred clients has of CIFAR-10."""
    torch.manual_seed(0)
    return TensorSamples(torch.randn(512, 3, 32, 32), torch.randint(0, 10, (512,)))


def cpu_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def recalibration_table() -> str:
    """Stage 3 of FedPer on ResNet-18 (ImageNet stem) against one forward pass."""
    torch.manual_seed(0)
    model, samples = resnet18(stem="imagenet"), client_images()
    split = split_head(model)
    job = Job(
        client="c0",
        model=model,
        split=split,
        head="fc",
        shared=read_tensors(model, split.shared),
        personal=read_tensors(model, split.personal),
        samples=samples,
        training=LocalTraining(batch_size=32),
        options=NoOptions(),
    )
    how = Recalibration(epochs=2)

    def recalibrate() -> object:
        load_tensors(job.model, job.shared, job.personal)
        return FEDPER.recalibrate(job, how)

    with one_thread():
        forward = median_seconds(lambda: one_pass(model, samples))
        spent = median_seconds(recalibrate)
    return (
        f"Stage 3, 512 images, two epochs of the head: {spent / forward:.2f} times one plain "
        "forward pass over the same images.\n"
    )


@torch.no_grad()
def one_pass(model: nn.Module, samples: TensorSamples) -> None:
    model.eval()
    for x in torch.split(single(samples.x), 256):
        model(x)


def retraining_table(rounds: int = 8, epochs: int = 2) -> str:
    """A whole forget against retraining, in CPU time; evaluation is left out of both."""
    limit = 3 * rounds * epochs
    lines = [
        f"| digits, 10 clients, T = {rounds}, E = {epochs} | retraining / forget | limit 3TE |",
        "|---|---|---|",
    ]
    for name in ("fedper", "fedrep", "ditto", "fedbn"):
        settings: dict[str, Any] = {
            "personalization": name,
            "rounds": rounds,
            "local_epochs": epochs,
            "evaluate_every": 0,
            "engine": "inline",
            "partition": "iid",
        }
        lines.append(f"| {name} | {forget_against_retraining(settings):.1f} | {limit} |")
    return "\n".join(lines) + "\n"


def forget_against_retraining(settings: dict[str, Any]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        with Federation.create(Path(folder) / "run", **settings) as federation:
            federation.train()
            outcome = federation.forget("client-03", audit=False)
        stages = {name: cost.cpu_seconds for name, cost in outcome.stages.items()}
        stages.pop("evaluation", None)
        with Federation.create(Path(folder) / "again", **settings) as federation:
            federation.leave(["client-03"], federation.shared)
            federation.train()
            replies = federation.store.ledger.value("SELECT SUM(cpu_seconds) FROM rounds")
    return float(replies) / sum(stages.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="update docs/benchmarks.md")
    chosen = parser.parse_args()
    parts = [f"Measured on {machine()}\n", plan_table(), recalibration_table(), retraining_table()]
    text = "\n".join(parts)
    print(text)
    if chosen.write:
        write_page(PAGE, "forget", text)


if __name__ == "__main__":
    main()
