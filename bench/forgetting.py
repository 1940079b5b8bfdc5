"""What does each removal forget, what does it keep, and what does it cost? On real images.

    python bench/forgetting.py --data-root DIR --runs FOLDER [--seeds 0 1 2] [--only fedper ...]
    python bench/forgetting_page.py

CIFAR-10 (2,500 training images, 5,000 of the 10,000 test images), ten clients, Dirichlet 0.5,
ResNet-18 at quarter width with the ImageNet stem, 24 rounds of 3 epochs at rate 0.02: enough to
memorise. Half of the test images, because all variants of all 30 cells are evaluated and audited on
them, on two cores; forgetting_page.py computes the error that this leaves in PPS.
Every personalisation, and of each training two targets: the client whose size is nearest to the
mean, and the one nearest to twice the mean. Every removal starts from the same checkpoint and is
judged twice: against four oracles (level `standard`), and without any (level `instant`).

Runs, oracles and cells stay in FOLDER, and results are in results/forgetting/, a file for each
training and target: called again, the bench goes on where it stopped and repeats nothing.
`forgetting_page.py` makes tables and a picture of the results, and needs no data.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pfedul import Federation
from pfedul.compare.cells import Comparison, cells_of
from pfedul.compare.comparison import compare
from pfedul.compare.tables import is_oracle
from rounding import rounded

RESULTS = Path(__file__).parent.parent / "results/forgetting"
PERSONALIZATIONS = ("fedper", "fedrep", "ditto", "fedbn", "fedavg")
SIZES = {"average": 1.0, "double": 2.0}
ORACLES = 4

SETTINGS: dict[str, Any] = {
    "data": "cifar10",
    "samples": 2500,
    "test_samples": 5000,
    "clients": 10,
    "partition": "dirichlet:0.5",
    "small_clients": "drop",
    "model": "resnet18:width=16,stem=imagenet",
    "rounds": 24,
    "local_epochs": 3,
    "lr": 0.02,
    "record": "fisher+contributions",
    "evaluate_every": 0,
    "engine": "inline",
}


def _exclude(strength: float, rounds: int = 0, repair: str = "ordinary") -> dict[str, str]:
    own = f"pfedul:strength={strength},repair-rounds={rounds},repair={repair}"
    kind = "" if not rounds else f", {rounds} {repair}"
    return {f"exclude {strength:g}{kind}": own}


CONTROL_ROUNDS = (3, 7, 14, 28, 45)
"""From less than the default costs to several times that; the multiples are in docs/results.md."""

VARIANTS = {
    "default": "pfedul",
    "paper": "pfedul:correction=paper",
    "paper, saturated": "pfedul:correction=paper,step=1e9,layers=all",
    "reset 0.5": "pfedul:correction=reset,fraction=0.5,layers=all",
    **_exclude(0.5),
    **_exclude(1.0),
    **_exclude(1.0, 1),
    **_exclude(1.0, 2),
    **_exclude(1.0, 4),
    **_exclude(1.0, 1, "distil"),
    **_exclude(1.0, 2, "distil"),
    **_exclude(1.0, 4, "distil"),
    **_exclude(0.7, 2, "distil"),
    **{f"old heads, {n} rounds": f"old-heads:rounds={n}" for n in CONTROL_ROUNDS},
    "CT": "ct",
    "FedMemPrune": "fedmemprune",
    "recalibration alone": "recalibration",
}
"""Name in the tables -> the method as `pfedul compare --methods` takes it."""

AFFINE = {"default, affine": "pfedul:affine=true"}
"""FedBN alone: weights and biases of the normalisation are fitted as well."""

Row = dict[str, Any]
FIGURES = ("verdict", "instant", "removed", "removed_interval", "mean_excess", "pps", "cfi")


# Measuring


def trained(run: Path, personalization: str, seed: int, root: str) -> Federation:
    """A run of the bench, trained to its last round."""
    if (run / "ledger.db").is_file():
        federation = Federation.open(run, data_root=root)
    else:
        own: dict[str, Any] = {"personalization": personalization, "seed": seed}
        federation = Federation.create(run, data_root=root, **SETTINGS, **own)
    federation.train()
    return federation


def targets_of(federation: Federation) -> dict[str, str]:
    """For each size the client that is nearest to it; two sizes never share a client."""
    sizes = {name: member.train_samples for name, member in federation.members.items()}
    mean = sum(sizes.values()) / len(sizes)
    chosen: dict[str, str] = {}
    for size, times in SIZES.items():
        free = {name: abs(n - times * mean) for name, n in sizes.items()}
        chosen[size] = min(free.keys() - chosen.values(), key=lambda name: (free[name], name))
    return chosen


def measure(runs: Path, root: str, personalization: str, seed: int, sizes: Sequence[str]) -> None:
    """All variants for the targets of one training, as far as they are not measured yet."""
    name = f"{personalization}-{seed}"
    files = {size: RESULTS / f"{name}-{size}.json" for size in sizes}
    variants = variants_of(personalization)
    missing = [size for size, file in files.items() if not _complete(file, variants)]
    if not missing:
        return
    with trained(runs / name, personalization, seed, root) as federation:
        for size in missing:
            target = targets_of(federation)[size]
            document = compared(federation, target, variants)
            samples = {c: member.train_samples for c, member in federation.members.items()}
            heading = {"personalization": personalization, "seed": seed, "size": size}
            shares = {"share": samples[target] / sum(samples.values())}
            _keep(files[size], {**heading, **shares, **rows_of(document, variants)})


def variants_of(personalization: str) -> dict[str, str]:
    return VARIANTS | (AFFINE if personalization == "fedbn" else {})


def _complete(file: Path, variants: Mapping[str, str]) -> bool:
    return file.is_file() and json.loads(file.read_text())["rows"].keys() >= variants.keys()


def compared(federation: Federation, target: str, variants: Mapping[str, str]) -> dict[str, Any]:
    """All variants from this checkpoint, one cell after another."""
    cells = cells_of(variants.values(), [None])
    comparison = Comparison(federation, (target,), cells, ORACLES, workers=1)
    run = federation.store.path.name
    return compare(
        comparison,
        lambda stage, done, of: _tell(f"{run} {target} {stage}", done, of),
        lambda done, of, now: _tell(f"{run} {target} cells {now}", done, of),
    )[1]


def _tell(what: str, done: int, of: int) -> None:
    print(f"\r{what[:90]:<90} {done}/{of}", end="", file=sys.stderr, flush=True)


def rows_of(document: Mapping[str, Any], variants: Mapping[str, str]) -> Row:
    """The figures that tables need, of every variant, the untouched run and each oracle."""
    by_label = {row["label"]: row for row in document["cells"]}
    oracles = [row for row in document["references"] if is_oracle(row)]
    retraining = sum(row["cpu_seconds"] for row in oracles) / len(oracles)
    cells = {name: row_of(by_label[label], retraining) for name, label in variants.items()}
    untouched = next(row for row in document["references"] if not is_oracle(row))
    return {
        "training_cpu_seconds": document["training_cpu_seconds"],
        "retraining_cpu_seconds": retraining,
        "oracles": [row_of(row, retraining) for row in oracles],
        "rows": {"untouched": row_of(untouched, retraining), **cells},
    }


def row_of(row: Mapping[str, Any], retraining: float) -> Row:
    if row.get("failure"):
        return {"failure": row["failure"]}
    auc = {
        f"{test['surface']}/{test['attack']}": test["figures"]["candidate"]["value"]
        for test in row["tests"]
    }
    return {
        **{name: row[name] for name in FIGURES},
        "accuracy": row["remaining_accuracy"],
        "shared_accuracy": row["shared_accuracy_after"],
        "cpu_share": row["cpu_seconds"] / retraining,
        "rounds": row.get("rounds"),
        "auc": auc,
    }


def _keep(file: Path, document: Mapping[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(rounded(document), indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing in the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-root")
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=PERSONALIZATIONS, default=PERSONALIZATIONS)
    parser.add_argument("--sizes", nargs="+", choices=tuple(SIZES), default=tuple(SIZES))
    options = parser.parse_args(arguments)
    if options.data_root is None or options.runs is None:
        parser.error("give --data-root and --runs")
    for seed in options.seeds:
        for name in options.only:
            measure(options.runs, options.data_root, name, seed, options.sizes)


if __name__ == "__main__":
    main()
