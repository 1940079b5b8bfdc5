"""What forgetting costs: against memory, against a forward pass, against retraining.

    python bench/forget.py [--write]

1. Stages 1 and 2 (attribution, selection, correction) on ResNet-18, against the
   time to read the same numbers once from memory.
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
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pfedul import Federation, compiled
from pfedul.base.registry import NoOptions
from pfedul.base.tensors import Tensors, empty, pieces, read_tensors
from pfedul.base.threads import one_thread
from pfedul.data import TensorSamples
from pfedul.models import resnet18
from pfedul.personalization import Job, LocalTraining, Recalibration
from pfedul.personalization.fedper import FEDPER
from pfedul.personalization.recalibration import prepare
from pfedul.records import FisherRecord
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
    """A record whose sum is at hand, as it is in a run folder."""

    def __init__(self, record: FisherRecord) -> None:
        self.layers, self.clients = record.layers, record.clients
        self._own = {client: record.of(client) for client in record.clients}
        self._total = record.total()

    def of(self, client: str) -> Tensors:
        return self._own[client]

    def total(self) -> Tensors:
        return self._total


def plan_table() -> str:
    """Stages 1 and 2 against one reading of what they need."""
    model = resnet18()
    split = split_head(model)
    shared = read_tensors(model, split.shared)
    initial = {name: tensor * 0.9 for name, tensor in shared.items()}
    fisher = Summed(recorded(split, shared))
    lines = [
        "| stages 1 and 2 | layers chosen | compiled, one reading = 1 | PyTorch | memory alone |",
        "|---|---|---|---|---|",
    ]
    with one_thread():
        for correction in ("paper", "trust-region", "reset"):
            for layers in ("high", "all"):
                options = PlanOptions(correction=correction, layers=layers)

                def plan(options: PlanOptions = options) -> Plan:
                    made = plan_removal(fisher, shared, initial, "c0", options=options, lr=0.01)
                    made.apply(shared)
                    return made

                chosen = plan()
                tensors = needed(fisher, shared, initial, chosen)
                memory = partial(memory_alone, fisher, shared, initial, chosen)
                ways = (plan if compiled.COMPILED else None, partial(in_torch, plan), memory)
                spent = " | ".join("" if way is None else _ratio(way, tensors) for way in ways)
                count = f"{len(chosen.selected)} of {len(chosen.layers)}"
                lines.append(f"| {correction} | {count} | {spent} |")
    return "\n".join(lines) + "\n"


def _ratio(work: Callable[[], object], tensors: list[Tensor]) -> str:
    return f"{against_reading(work, tensors):.1f}"


def in_torch(plan: Callable[[], Plan]) -> Plan:
    """As on a machine on which nothing could be compiled."""
    there, compiled.COMPILED = compiled.COMPILED, False
    try:
        return plan()
    finally:
        compiled.COMPILED = there


def needed(fisher: Summed, shared: Tensors, initial: Tensors, plan: Plan) -> list[Tensor]:
    """What stages 1 and 2 have to read: the Fisher of all layers, the weights of chosen ones."""
    every = [name for layer in plan.layers for name in layer.tensors]
    chosen = [name for layer in plan.layers if layer.selected for name in layer.tensors]
    records, weights = (fisher.of("c0"), fisher.total()), (shared, initial)
    return [part[name] for part in records for name in every] + [
        part[name] for part in weights for name in chosen
    ]


def memory_alone(fisher: Summed, shared: Tensors, initial: Tensors, plan: Plan) -> Tensors:
    """Stages 1 and 2 without their arithmetic: what they cannot but read and write.

    The Fisher of all layers for the scores; of the chosen ones the weights for the
    bound and then, piece by piece, weights, initial weights and once more the
    Fisher, for a result in new memory.
    """
    own, total = fisher.of("c0"), fisher.total()
    for name in (name for layer in plan.layers for name in layer.tensors):
        own[name].sum(), total[name].sum()
    again = (initial, own, total) if plan.options.correction == "reset" else (initial, own)
    return {
        name: copied(shared[name], [part[name] for part in again])
        for layer in plan.layers
        if layer.selected
        for name in layer.tensors
    }


def copied(tensor: Tensor, others: list[Tensor]) -> Tensor:
    """A copy in new memory, while the others are read alongside."""
    tensor.sum()
    result = empty(tensor.shape, tensor.dtype)
    for into, piece, *rest in pieces(result, tensor, *others):
        for other in rest:
            other.sum()
        into.copy_(piece)
    return result


def against_reading(work: Callable[[], object], tensors: list[Tensor]) -> float:
    """Median CPU time of the work, where reading the tensors once is 1; done in turn."""
    working, reading = [], []
    for _ in range(REPEATS):
        reading.append(cpu_seconds(lambda: [tensor.sum() for tensor in tensors]))
        working.append(cpu_seconds(work))
    return statistics.median(working) / statistics.median(reading)


def cpu_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def recalibration_table() -> str:
    """Stage 3 of FedPer on ResNet-18 (ImageNet stem) against one forward pass."""
    torch.manual_seed(0)
    model = resnet18(stem="imagenet")
    split = split_head(model)
    samples = TensorSamples(torch.randn(512, 3, 32, 32), torch.randint(0, 10, (512,)))
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
        prepare(job, how)
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
    for x in torch.split(samples.x, 256):
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
            outcome = federation.forget("client-03")
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
