"""Does the correction forget? The paper's rule and our variants against retraining, on real images.

    python bench/fidelity.py --data-root DIR [--seeds 0 1 2] [--write]

CIFAR-10, FedPer, ten clients that hold 500 images on average (Dirichlet 0.5),
ResNet-18 at quarter width with the ImageNet stem, 15 rounds of 3 epochs. For
each seed: train, retrain without the target from the same start, and apply each
variant to a copy of the trained run. A loss attack then tries to separate the target's
training samples from its test samples: AUC 0.5 means that it cannot.

Three surfaces, since the target's head is deleted:
  stale head   the shared tensors under the head that the target kept
  remaining    the shared tensors under each remaining client's head, mean AUC
  fresh probe  a linear probe fitted on the remaining clients' training features

The attack is weak (one threshold for all samples); it is a first look, not an
audit. `--write` puts the table into docs/fidelity.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn import functional as F

from pfedul import Federation
from pfedul.base.tensors import Tensors, load_tensors
from pfedul.data import ClientData, Samples
from pfedul.evaluation import preservation
from pfedul.records.fisher import FisherSource
from pfedul.unlearn import PlanOptions, plan_removal
from speed import write_page

PAGE = Path(__file__).parent.parent / "docs/fidelity.md"
ROUNDS = 15

SETTINGS: dict[str, Any] = {
    "data": "cifar10",
    "samples": 5000,
    "clients": 10,
    "partition": "dirichlet:0.5",
    "model": "resnet18:width=16,stem=imagenet",
    "personalization": "fedper",
    "rounds": ROUNDS,
    "local_epochs": 3,
    "evaluate_every": 0,
    "engine": "inline",
}

NOTHING: dict[str, Any] = {"alpha": 1e6}
"""No score is that far above the mean: nothing is corrected."""

VARIANTS: dict[str, dict[str, Any]] = {
    "recalibration alone": NOTHING,
    "paper, as printed": {},
    "paper, all layers": {"layers": "all"},
    "trust-region, clip 0.01": {"correction": "trust-region:clip=0.01"},
    "trust-region, clip 0.1": {"correction": "trust-region:clip=0.1"},
    "trust-region, clip 0.5": {"correction": "trust-region:clip=0.5"},
    "trust-region, clip 0.3, all layers, away": {
        "correction": "trust-region:clip=0.3",
        "layers": "all",
    },
    "trust-region, clip 0.3, all layers, toward init": {
        "correction": "trust-region:clip=0.3,toward=init",
        "layers": "all",
    },
    "reset 0.1, all layers": {"correction": "reset:fraction=0.1", "layers": "all"},
    "reset 0.2, all layers": {"correction": "reset:fraction=0.2", "layers": "all"},
    "reset 0.3, all layers": {"correction": "reset:fraction=0.3", "layers": "all"},
    "reset 0.5, all layers": {"correction": "reset:fraction=0.5", "layers": "all"},
    "reset 0.25, chosen layers": {"correction": "reset:fraction=0.25"},
    "reset 0.3, all layers, 2 repair rounds": {
        "correction": "reset:fraction=0.3",
        "layers": "all",
        "repair_rounds": 2,
    },
    "reset 0.5, all layers, 3 repair rounds": {
        "correction": "reset:fraction=0.5",
        "layers": "all",
        "repair_rounds": 3,
    },
    "3 ordinary rounds without the target, nothing else": {**NOTHING, "repair_rounds": 3},
}

SEED_BY_SEED = (
    "untouched",
    "retrained",
    "paper, as printed",
    "reset 0.3, all layers",
    "reset 0.3 of random entries (control)",
    "reset 0.5, all layers, 3 repair rounds",
)

EARLY_STOPS = (3, 6, 10)
"""Rounds after which unfinished retraining is measured, as retraining with a smaller budget."""


@dataclass(frozen=True)
class Attacked:
    """What an attacker may have of the target: its samples and its old head."""

    data: ClientData
    head: Tensors


@dataclass
class Row:
    """One line of the table, one entry for each seed."""

    stale: list[float] = field(default_factory=list)
    remaining: list[float] = field(default_factory=list)
    probe: list[float] = field(default_factory=list)
    pps: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


class RandomFisher:
    """A control: entries are chosen at random, layers and their scores stay as they are."""

    def __init__(self, real: FisherSource, seed: int) -> None:
        self._real = real
        self._generator = torch.Generator().manual_seed(seed)
        self.clients = real.clients

    def of(self, client: str) -> Tensors:
        return {name: self._shuffled(tensor) for name, tensor in self._real.of(client).items()}

    def total(self) -> Tensors:
        # Constant within a tensor, so the share of an entry is that of the shuffled target.
        return {name: torch.full_like(t, float(t.mean())) for name, t in self._real.total().items()}

    def _shuffled(self, tensor: Tensor) -> Tensor:
        order = torch.randperm(tensor.numel(), generator=self._generator)
        return tensor.flatten()[order].view_as(tensor)


@torch.no_grad()
def losses(model: nn.Module, samples: Samples) -> NDArray[np.float64]:
    model.eval()
    x, y = samples.batch(torch.arange(len(samples)))
    return F.cross_entropy(model(x), y, reduction="none").double().numpy()


def attack(model: nn.Module, data: ClientData) -> float:
    """AUC of "small loss means member" on the target's train and test samples."""
    return auc(losses(model, data.train), losses(model, data.test))


def auc(members: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    labels = np.r_[np.ones(len(members)), np.zeros(len(others))]
    return float(roc_auc_score(labels, -np.r_[members, others]))


@torch.no_grad()
def features(model: nn.Module, samples: Samples) -> tuple[NDArray[Any], NDArray[Any]]:
    model.eval()
    x, y = samples.batch(torch.arange(len(samples)))
    made: Tensor = model.features(x)  # type: ignore[operator]
    return made.numpy(), y.numpy()


def probe_attack(federation: Federation, model: nn.Module, target: ClientData) -> float:
    """The attack through a head that has never seen the target."""
    load_tensors(model, federation.shared)
    parts = [features(model, federation.bench.data[client].train) for client in federation.clients]
    probe = LogisticRegression(max_iter=300)
    probe.fit(np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts]))
    scores = []
    for samples in (target.train, target.test):
        x, y = features(model, samples)
        known = np.isin(y, probe.classes_)
        chosen = probe.predict_log_proba(x[known])
        scores.append(-chosen[np.arange(known.sum()), np.searchsorted(probe.classes_, y[known])])
    return auc(*scores)


def measure(federation: Federation, attacked: Attacked, row: Row, cost: float, kept: float) -> None:
    """All surfaces of a federation that no longer has the target."""
    model = federation.bench.build_model()
    load_tensors(model, federation.shared, attacked.head)
    row.stale.append(attack(model, attacked.data))
    each = []
    for client in federation.clients:
        load_tensors(model, federation.shared, federation.personal(client))
        each.append(attack(model, attacked.data))
    row.remaining.append(statistics.fmean(each))
    row.probe.append(probe_attack(federation, model, attacked.data))
    row.pps.append(kept)
    row.cpu.append(cost)


def one_seed(seed: int, data_root: str) -> dict[str, Row]:
    """Train, retrain, and every variant from the same checkpoint."""
    torch.set_num_threads(1)
    rows: dict[str, Row] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Federation.create(
            folder / "run", seed=seed, data_root=data_root, **SETTINGS
        ) as federation:
            started = time.process_time()
            federation.train()
            cost = time.process_time() - started
            target = middle_client(federation)
            attacked = Attacked(federation.known_data[target], federation.personal(target))
            before = accuracies(federation, target)
            federation.clients.remove(target)
            measure(federation, attacked, rows.setdefault("untouched", Row()), cost, 1.0)
            say(seed, "untouched", rows)
        retrain(seed, data_root, folder, target, attacked, before, rows)
        for variant, options in VARIANTS.items():
            try_variant(folder, variant, options, target, attacked, rows)
            say(seed, variant, rows)
        try_random_control(folder, target, attacked, before, rows)
        say(seed, "control", rows)
    return rows


def say(seed: int, variant: str, rows: dict[str, Row]) -> None:
    print(f"seed {seed}: {variant}: {rows.get(variant, '')}", file=sys.stderr, flush=True)


def middle_client(federation: Federation) -> str:
    """The client whose size is nearest to the mean."""
    sizes = {client: len(data.train) for client, data in federation.bench.data.items()}
    mean = statistics.fmean(sizes.values())
    return min(sizes, key=lambda client: (abs(sizes[client] - mean), client))


def accuracies(federation: Federation, target: str) -> dict[str, float]:
    scores = federation.measure().clients
    return {client: score.accuracy for client, score in scores.items() if client != target}


def retrain(
    seed: int,
    data_root: str,
    folder: Path,
    target: str,
    attacked: Attacked,
    before: dict[str, float],
    rows: dict[str, Row],
) -> None:
    """The same run without the target, measured on the way and at the end."""
    with Federation.create(
        folder / "oracle", seed=seed, data_root=data_root, **SETTINGS
    ) as federation:
        federation.leave([target], federation.shared)
        started, spent = time.process_time(), 0.0
        for rounds in (*EARLY_STOPS, ROUNDS):
            federation.train(rounds)
            spent += time.process_time() - started
            kept = preservation(before, accuracies(federation, target)).pps
            name = "retrained" if rounds == ROUNDS else f"from scratch, {rounds} rounds"
            measure(federation, attacked, rows.setdefault(name, Row()), spent, kept)
            say(seed, name, rows)
            started = time.process_time()


def try_variant(
    folder: Path,
    variant: str,
    options: dict[str, Any],
    target: str,
    attacked: Attacked,
    rows: dict[str, Row],
) -> None:
    shutil.copytree(folder / "run", folder / "copy")
    with Federation.open(folder / "copy") as federation:
        outcome = federation.forget(target, audit=False, **options)
        spent = {stage: cost.cpu_seconds for stage, cost in outcome.stages.items()}
        spent.pop("evaluation")
        kept = preservation(outcome.before, outcome.after).pps
        row = rows.setdefault(variant, Row())
        measure(federation, attacked, row, sum(spent.values()), kept)
    shutil.rmtree(folder / "copy")


def try_random_control(
    folder: Path, target: str, attacked: Attacked, before: dict[str, float], rows: dict[str, Row]
) -> None:
    """Reset as many entries of each layer, but random ones."""
    from pfedul.records.fisher_on_disk import StoredFisher
    from pfedul.store.paths import INIT_FILE

    shutil.copytree(folder / "run", folder / "copy")
    with Federation.open(folder / "copy") as federation:
        layers = federation.bench.split.layers
        real = StoredFisher(federation.store, federation.clients, layers)
        initial = federation.store.read(INIT_FILE)
        options = PlanOptions(correction="reset:fraction=0.3", layers="all")
        plan = plan_removal(
            RandomFisher(real, 0), federation.shared, initial, target, layers, options
        )
        federation.shared = plan.apply(federation.shared)
        # From here as in the product: no further correction, heads and statistics recalibrate.
        federation.store.stage("shared.safetensors", federation.shared)
        federation.store.keep([])
        federation.store.commit()
        outcome = federation.forget(target, audit=False, correction="reset:fraction=0.3", **NOTHING)
        kept = preservation(before, outcome.after).pps
        row = rows.setdefault("reset 0.3 of random entries (control)", Row())
        measure(federation, attacked, row, 0.0, kept)
    shutil.rmtree(folder / "copy")


def merge(results: list[dict[str, Row]]) -> dict[str, Row]:
    merged: dict[str, Row] = {}
    for rows in results:
        for name, row in rows.items():
            into = merged.setdefault(name, Row())
            for key, values in vars(row).items():
                getattr(into, key).extend(values)
    return merged


def cell(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"


def table(rows: dict[str, Row], seeds: list[int]) -> str:
    """Mean and standard deviation over seeds; CPU time as a share of retraining's."""
    full = statistics.fmean(rows["retrained"].cpu)
    lines = [
        f"Seeds {', '.join(map(str, seeds))}: mean ± standard deviation. Columns 1 to 3: AUC of "
        "the loss attack.\nCPU time: share of retraining's, evaluation left out.",
        "",
        "| | stale head | remaining heads | fresh probe | PPS | CPU time |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        parts = [cell(row.stale), cell(row.remaining), cell(row.probe), cell(row.pps)]
        spent = statistics.fmean(row.cpu) / full
        lines.append(f"| {name} | {' | '.join(parts)} | {spent:.1%} |")
    return "\n".join([*lines, "", *by_seed(rows, seeds)]) + "\n"


def by_seed(rows: dict[str, Row], seeds: list[int]) -> list[str]:
    """The strongest surface, seed by seed: for some targets there is little to forget."""
    lines = [
        "Stale head, seed by seed:",
        "",
        f"| | {' | '.join(f'seed {seed}' for seed in seeds)} |",
        "|---" * (len(seeds) + 1) + "|",
    ]
    for name in SEED_BY_SEED:
        lines.append(f"| {name} | {' | '.join(f'{value:.3f}' for value in rows[name].stale)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="update docs/fidelity.md")
    chosen = parser.parse_args()
    with ProcessPoolExecutor(chosen.processes) as pool:
        roots = [chosen.data_root] * len(chosen.seeds)
        results = list(pool.map(one_seed, chosen.seeds, roots))
    rows = merge(results)
    text = table(rows, chosen.seeds)
    print(text)
    print(json.dumps({name: vars(row) for name, row in rows.items()}), file=sys.stderr)
    if chosen.write:
        write_page(PAGE, "trial", text)


if __name__ == "__main__":
    main()
