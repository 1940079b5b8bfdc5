"""Is there anything to forget in FEMNIST's natural deal? Several federations, every writer in turn.

    python bench/femnist.py --data-root DIR [--seeds 0] [--only NAME ...]
    python bench/femnist.py --write

Each federation has twenty writers, drawn by seed. Nothing is forgotten: every writer is looked
at as the level `instant` would before its removal, through all surfaces. Figures go to
results/femnist.json as they come, and nothing that is there is measured again. `--write` makes
the table in docs/results.md of them, and needs no data.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from time import process_time
from typing import Any

from pfedul import Federation
from pfedul.audit.ask.logits import logits_from_heads
from pfedul.audit.instant import Exam, check_enough, exam_of, seen
from pfedul.audit.judge.instant import Row, compare
from pfedul.audit.state import state_of
from pfedul.compare.tables import verdict_words
from pfedul.data.samples import Samples, TensorSamples
from pfedul.errors import PfedulError
from pfedul.experiments.scales import preset
from rounding import rounded
from speed import write_page

ROOT = Path(__file__).parent.parent
PAGE, RESULTS = ROOT / "docs/results.md", ROOT / "results/femnist.json"

FEW = {"samples": 3000, "test_samples": 8000}
"""Of all 99 writers: 30 training images of each, and all test images."""

SETTINGS: dict[str, dict[str, Any]] = {
    "as the preset cpu-femnist": {},
    "LEAF's own split": {"data": "femnist"},
    "FedPer": {"personalization": "fedper"},
    "30 images a writer": FEW,
    "30 images, 180 epochs": {**FEW, "rounds": 60},
    "30 images, twice as wide": {**FEW, "model": "resnet18:width=32,stem=imagenet"},
}
"""What differs from the preset under FedRep."""

FIXED: dict[str, Any] = {"record": "none", "evaluate_every": 0, "engine": "inline"}
SURFACES = ("remaining", "stale", "probe")
Figures = Mapping[str, Any]


# Measuring


def measured(name: str, seed: int, root: str, run: Path) -> Figures:
    """The figures of one federation."""
    start = process_time()
    chosen = {**preset("cpu-femnist"), "personalization": "fedrep", **SETTINGS[name], **FIXED}
    with Federation.create(run, **chosen, seed=seed, data_root=root) as federation:
        federation.train(evaluated=False)
        spent = process_time() - start
        return {"training_cpu_seconds": spent, **figures(federation)}


def figures(federation: Federation) -> Figures:
    """What every writer would see of itself."""
    looks = [look(federation, client) for client in federation.clients]
    return {name: [one[name] for one in looks] for name in looks[0]}


def look(federation: Federation, client: str) -> Figures:
    """One writer as a target: accuracies, and what an attack sees on the untouched run."""
    exam, data = exam_of(federation, [client]), federation.bench.data[client]
    known = {
        **exam.counts,
        "training_accuracy": accuracy(federation, client, data.train),
        "test_accuracy": accuracy(federation, client, data.test),
    }
    try:
        check_enough(exam, [client])
    except PfedulError:
        return {**known, "auc": {}, "verdict": "too few images"}
    return {**known, **attacked(federation, client, exam)}


def attacked(federation: Federation, client: str, exam: Exam) -> Figures:
    """AUC of the loss attack through each surface, and the verdict on all attacks."""
    others = [one for one in federation.clients if one != client]
    state = state_of(federation, others, {client: federation.personal(client)})
    scores = seen(federation.bench, exam, state)
    found = compare(scores, scores, exam.draw)
    auc = {row.surface: row.before.auc for row in found.rows if _is_loss(row)}
    return {"auc": auc, "verdict": found.verdict()}


def _is_loss(row: Row) -> bool:
    return row.attack == "threshold"


def accuracy(federation: Federation, client: str, samples: Samples) -> float:
    """Of a writer's own model."""
    assert isinstance(samples, TensorSamples)
    head = {client: federation.personal(client)}
    logits = logits_from_heads(federation.bench, federation.shared, head, samples)[client]
    return float((logits.argmax(axis=1) == samples.y.numpy()).mean())


# Results


def results() -> dict[str, dict[str, Figures]]:
    """Name of a federation -> seed -> its figures."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}


def _keep(name: str, seed: int, found: Figures) -> None:
    known = results()
    known.setdefault(name, {})[str(seed)] = rounded(found)
    RESULTS.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def page_part() -> str:
    """The table, a row for each federation."""
    known = results()
    titles = ["federation", "images asked", "CPU s", "training / test accuracy"]
    titles += [*(f"AUC {name}" for name in SURFACES), "verdict on the untouched run"]
    lines = ["| " + " | ".join(titles) + " |", "|---|---:|---:|---:|" + "---:|" * 3 + "---|"]
    for name in SETTINGS:
        if name in known:
            lines.append("| " + " | ".join(_cells(name, list(known[name].values()))) + " |")
    return "\n".join(lines) + "\n"


def _cells(name: str, runs: Sequence[Figures]) -> list[str]:
    aucs = [auc for auc in _all(runs, "auc") if auc]
    right = (fmean(_all(runs, f"{part}_accuracy")) for part in ("training", "test"))
    return [
        name,
        " / ".join(f"{fmean(_all(runs, part)):.0f}" for part in ("members", "nonmembers")),
        f"{fmean(run['training_cpu_seconds'] for run in runs):.0f}",
        " / ".join(f"{value:.3f}" for value in right),
        *(_mean([auc[surface] for auc in aucs]) for surface in SURFACES),
        verdict_words(sorted(_all(runs, "verdict"))),
    ]


def _all(runs: Iterable[Figures], name: str) -> list[Any]:
    return [value for run in runs for value in run[name]]


def _mean(values: Sequence[float]) -> str:
    return f"{fmean(values):.3f} ± {stdev(values) / len(values) ** 0.5:.3f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-root")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", nargs="+", choices=tuple(SETTINGS), default=tuple(SETTINGS))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    if options.write:
        write_page(PAGE, "femnist", page_part())
    elif options.data_root is None:
        parser.error("give --data-root, or --write")
    else:
        _measure(options.only, options.seeds, options.data_root)


def _measure(names: Sequence[str], seeds: Sequence[int], root: str) -> None:
    for seed in seeds:
        for name in names:
            if str(seed) not in results().get(name, {}):
                with tempfile.TemporaryDirectory() as folder:
                    _keep(name, seed, measured(name, seed, root, Path(folder) / "run"))
                print(f"{name}, seed {seed}", flush=True)


if __name__ == "__main__":
    main()
