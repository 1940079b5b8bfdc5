"""How long honest updates are, next to the bound that --clip-updates sets (docs/clients.md).

    python bench/update_norms.py --data-root DIR

For every honest run it prints the largest ratio of an update to the running median, and to the size
of the shared parameters where there is no median yet. DIR holds CIFAR-10 and FEMNIST as published.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median_low
from typing import Any

from pfedul import Federation
from pfedul.base.tensors import norm
from pfedul.run.run import Run

ROUNDS, WINDOW, ENOUGH = 12, 5, 5
IMAGES = {"data": "cifar10", "samples": 3000, "model": "cnn", "local_epochs": 3}
CASES: dict[str, dict[str, Any]] = {
    "digits, mlp, dirichlet 0.5": {"personalization": "fedavg", "model": "mlp"},
    "digits, mlp, dirichlet 0.1": {
        "personalization": "fedavg",
        "model": "mlp",
        "partition": "dirichlet:0.1",
    },
    "digits, cnn, dirichlet 0.1, lr 0.1": {
        "personalization": "fedper",
        "partition": "dirichlet:0.1",
        "lr": 0.1,
    },
    "digits, mlp, imbalanced": {
        "personalization": "ditto",
        "model": "mlp",
        "partition": "imbalanced",
    },
    "digits, cnn, half take part": {
        "clients": 20,
        "participation": 0.5,
        "partition": "dirichlet:0.1",
    },
    "CIFAR-10, cnn, fedavg, dirichlet 0.1": {
        **IMAGES,
        "personalization": "fedavg",
        "partition": "dirichlet:0.1",
    },
    "CIFAR-10, cnn, fedrep, dirichlet 0.3": {**IMAGES, "partition": "dirichlet:0.3"},
    "CIFAR-10, cnn, fedper, adam": {
        **IMAGES,
        "personalization": "fedper",
        "partition": "dirichlet:0.1",
        "optimizer": "adam",
        "lr": 0.001,
    },
    "CIFAR-10, resnet, fedbn": {
        **IMAGES,
        "samples": 1000,
        "clients": 5,
        "model": "resnet18:width=8",
        "personalization": "fedbn",
    },
    "FEMNIST, cnn, writers": {
        "data": "femnist",
        "partition": "natural",
        "clients": 20,
        "personalization": "fedper",
        "local_epochs": 3,
    },
}


def ratios(run: Run) -> tuple[float, float]:
    """The largest ratio to the running median, and in round 1 to the size of the parameters."""
    rows = run.store.ledger.rows("SELECT round, update_norm FROM replies")
    of_round: dict[int, list[float]] = {}
    for row in rows:
        of_round.setdefault(row["round"], []).append(row["update_norm"])
    initial = run.bench.build_model().state_dict()
    size = norm({name: initial[name] for name in run.bench.split.parameters})
    largest = 0.0
    for number, norms in of_round.items():
        known = [n for r in range(number - WINDOW, number) for n in of_round.get(r, [])]
        if len(known) >= ENOUGH:
            largest = max(largest, max(norms) / median_low(known))
    return largest, max(of_round[1]) / size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root", required=True)
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    print("| run | seed | to the running median | round 1, to the parameters |\n|---|---|---|---|")
    for name, case in CASES.items():
        for seed in range(args.seeds):
            print(f"| {name} | {seed} | {_measured(case, seed, args.data_root)} |", flush=True)


def _measured(case: dict[str, Any], seed: int, data_root: str) -> str:
    usual = {"rounds": ROUNDS, "record": "none", "evaluate_every": 0, "seed": seed}
    chosen = {**usual, "small_clients": "drop", "data_root": data_root, **case}
    with (
        tempfile.TemporaryDirectory() as folder,
        Federation.create(Path(folder) / "run", **chosen) as federation,
    ):
        federation.train()
        return " | ".join(f"{ratio:.2f}" for ratio in ratios(federation))


if __name__ == "__main__":
    main()
