"""What does each removal forget, what does it keep, and what does it cost? On real images.

    python bench/forgetting.py --data-root DIR --runs FOLDER [--seeds 0 1 2] [--only fedper ...]

CIFAR-10 (2,500 training images, all test images), ten clients, Dirichlet 0.5, ResNet-18 at
quarter width with the ImageNet stem, 24 rounds of 3 epochs at rate 0.02: enough to memorise.
Every personalisation, and of each training two targets: the client whose size is nearest to the
mean, and the one nearest to twice the mean. Every removal starts from the same checkpoint and
brings the evidence that it measures itself (level `instant`, no oracles).

Runs stay in FOLDER, and results are in results/forgetting/, a file for each training: called
again, the bench goes on where it stopped and repeats nothing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from comparisons import _rounded
from pfedul import Federation
from pfedul.store.copies import copy_run
from pfedul.store.tables import spent_on_rounds
from pfedul.unlearn.outcome import Outcome, spent

RESULTS = Path(__file__).parent.parent / "results/forgetting"
PERSONALIZATIONS = ("fedper", "fedrep", "ditto", "fedbn", "fedavg")
SIZES = {"average": 1.0, "double": 2.0}

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

Options = Mapping[str, Any]


def _exclude(strength: float, rounds: int = 0, repair: str = "ordinary") -> dict[str, Options]:
    own = {"correction": "exclude", "strength": strength}
    kind = "" if not rounds else f", {rounds} {repair}"
    return {f"exclude {strength}{kind}": {**own, "repair_rounds": rounds, "repair": repair}}


VARIANTS: dict[str, Options] = {
    "paper": {"correction": "paper"},
    "paper, saturated": {"correction": "paper", "step": 1e9, "layers": "all"},
    "reset 0.5": {"correction": "reset", "fraction": 0.5, "layers": "all"},
    **_exclude(1.0),
    **_exclude(0.5),
    **_exclude(1.0, 1),
    **_exclude(1.0, 2),
    **_exclude(1.0, 4),
    **_exclude(1.0, 1, "distil"),
    **_exclude(1.0, 2, "distil"),
    **_exclude(1.0, 4, "distil"),
    **_exclude(0.5, 2, "distil"),
    **{f"old heads, {n} rounds": {"method": f"old-heads:rounds={n}"} for n in (1, 2, 4, 8)},
    "CT": {"method": "ct"},
    "FedMemPrune": {"method": "fedmemprune"},
    "recalibration alone": {"method": "recalibration"},
}


def trained(run: Path, personalization: str, seed: int, root: str) -> Federation:
    """A run of the bench, trained to its last round."""
    if (run / "ledger.db").is_file():
        federation = Federation.open(run, data_root=root)
    else:
        own = {"personalization": personalization, "seed": seed, "data_root": root}
        federation = Federation.create(run, **SETTINGS, **own)
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


def removed(run: Path, target: str, options: Options, root: str) -> Outcome:
    """The outcome of one removal, in a copy of the run that is deleted afterwards."""
    copy = run.with_name(f"{run.name}-{target}-copy")
    copy_run(run, copy)
    try:
        with Federation.open(copy, data_root=root) as federation:
            return federation.forget(target, **options)
    finally:
        shutil.rmtree(copy)


def row_of(outcome: Outcome, retraining: float) -> dict[str, Any]:
    """The figures of a removal that tables need."""
    figures, evidence = outcome.as_json(), outcome.audit or {}
    tests = {
        test["surface"]: [test["figures"][which]["value"] for which in ("untouched", "candidate")]
        for test in evidence["tests"]
    }
    return {
        "verdict": evidence["verdict"]["verdict"],
        "removed": evidence["removed"],
        "auc": tests,
        **{name: figures[name] for name in ("pps", "pps_interval", "cfi", "rounds")},
        "cpu_share": spent(outcome.stages).cpu_seconds / retraining,
        "audit_share": outcome.stages["audit"].cpu_seconds / retraining,
        "accuracy": [_mean(outcome.before), _mean(outcome.after)],
    }


def _mean(accuracies: Mapping[str, float]) -> float:
    return sum(accuracies.values()) / len(accuracies)


def measure(runs: Path, root: str, personalization: str, seed: int) -> None:
    """All variants for both targets of one training, as far as they are not measured yet."""
    name = f"{personalization}-{seed}"
    with trained(runs / name, personalization, seed, root) as federation:
        cpu = spent_on_rounds(federation.store.ledger).cpu_seconds
        members, targets = federation.members, targets_of(federation)
    samples = sum(member.train_samples for member in members.values())
    for size, target in targets.items():
        share = members[target].train_samples / samples
        file = RESULTS / f"{name}-{size}.json"
        rows = json.loads(file.read_text())["rows"] if file.is_file() else {}
        heading = {"personalization": personalization, "seed": seed, "size": size, "share": share}
        for variant, options in VARIANTS.items():
            if variant not in rows:
                print(f"{name}, {size}: {variant}", file=sys.stderr, flush=True)
                outcome = removed(runs / name, target, options, root)
                rows[variant] = row_of(outcome, cpu * (1 - share))
                _keep(file, {**heading, "rows": rows})


def _keep(file: Path, document: Mapping[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(_rounded(document), indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing in the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-root", required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=PERSONALIZATIONS, default=PERSONALIZATIONS)
    options = parser.parse_args(arguments)
    for seed in options.seeds:
        for personalization in options.only:
            measure(options.runs, options.data_root, personalization, seed)


if __name__ == "__main__":
    main()
