"""Audits of the published correction and our variants, on real images, with intervals.

    python bench/audits.py --data-root DIR --runs FOLDER [--write]

CIFAR-10 and FEMNIST, FedPer and FedRep: ten clients that hold 500 images on average
(Dirichlet 0.5), ResNet-18 at quarter width with the ImageNet stem, 30 rounds of 3
epochs. The target is the client whose size is nearest to the mean. Every variant is
rehearsed (`pfedul rehearse --level standard`) from the same checkpoint against the same
four oracles. Runs, oracles and audits stay in FOLDER: called again, it resumes and
repeats nothing. `--write` puts the tables into docs/fidelity.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

from fidelity import middle_client
from pfedul import Federation
from pfedul.audit.rehearsal import Rehearsal, level_of, rehearse
from pfedul.store.audits import Audit, read_audits
from pfedul.unlearn.options import ForgetOptions
from speed import write_page

PAGE = Path(__file__).parent.parent / "docs/fidelity.md"

SETTINGS: dict[str, Any] = {
    "samples": 5000,
    "clients": 10,
    "partition": "dirichlet:0.5",
    "small_clients": "drop",
    "model": "resnet18:width=16,stem=imagenet",
    "rounds": 30,
    "local_epochs": 3,
    "evaluate_every": 10,
}

VARIANTS: dict[str, dict[str, Any]] = {
    "pFedUL, as printed": {},
    "trust-region, clip 0.01": {"correction": "trust-region:clip=0.01"},
    "trust-region, clip 0.1": {"correction": "trust-region:clip=0.1"},
    "trust-region, clip 0.5": {"correction": "trust-region:clip=0.5"},
    "trust-region, clip 0.3, all layers, toward init": {
        "correction": "trust-region:clip=0.3,toward=init",
        "layers": "all",
    },
    "reset 0.1, all layers": {"correction": "reset:fraction=0.1", "layers": "all"},
    "reset 0.3, all layers": {"correction": "reset:fraction=0.3", "layers": "all"},
    "reset 0.5, all layers": {"correction": "reset:fraction=0.5", "layers": "all"},
    "reset 0.5, all layers, 3 repair rounds": {
        "correction": "reset:fraction=0.5",
        "layers": "all",
        "repair_rounds": 3,
    },
}

COLUMNS = (
    ("remaining", "threshold", "others' models, loss"),
    ("remaining", "rmia", "others' models, RMIA"),
    ("stale", "threshold", "stale head, loss"),
    ("stale", "rmia", "stale head, RMIA"),
    ("probe", "rmia", "fresh probe, RMIA"),
)


def trained(folder: Path, data: str, personalization: str, data_root: str) -> Federation:
    """The run, trained to its last round."""
    path = folder / f"{data}-{personalization}"
    if path.exists():
        federation = Federation.open(path, data_root=data_root)
    else:
        chosen = {"data": data, "personalization": personalization, "data_root": data_root}
        federation = Federation.create(path, **chosen, **SETTINGS)
    federation.train()
    return federation


def audited(federation: Federation, oracles: int) -> dict[str, Audit]:
    """Every variant's rehearsal; those that are in the ledger are not made again."""
    target = middle_client(federation)
    found = {}
    for variant, options in VARIANTS.items():
        wish, level = ForgetOptions(**options), level_of("standard", oracles)
        asked = Rehearsal(federation, (target,), wish, (), level)
        known = [
            audit
            for audit in read_audits(federation.store.ledger)
            if audit.evidence["options"] == wish.as_json()
            and audit.targets == (target,)
            and len(audit.evidence["oracles"]) == oracles
        ]
        found[variant] = known[-1] if known else rehearse(asked)
        say(federation, variant, found[variant])
    return found


def say(federation: Federation, variant: str, audit: Audit) -> None:
    verdict = audit.evidence["verdict"]["verdict"]
    print(f"{federation.store.path.name}: {variant}: {verdict}", file=sys.stderr, flush=True)


def table(name: str, audits: dict[str, Audit]) -> str:
    """A table: the untouched model, the oracles, then one row for each variant."""
    first = next(iter(audits.values())).evidence
    samples = first["samples"]
    heads = [words for _, _, words in COLUMNS]
    lines = [
        f"### {name}: {first['targets'][0]}, {samples['members']} members and "
        f"{samples['nonmembers']} non-members",
        "",
        f"| | {' | '.join(heads)} | PPS | CPU time | verdict |",
        "|---" * (len(heads) + 4) + "|",
        row("untouched", [figure(first, column, "untouched") for column in COLUMNS], "1.000"),
        oracle_row(first),
    ]
    lines += [variant_row(variant, audit.evidence) for variant, audit in audits.items()]
    return "\n".join([*lines, "", controls(audits), relearning(audits)]) + "\n"


def row(name: str, cells: list[str], *rest: str) -> str:
    return f"| {' | '.join([name, *cells, *rest, *[''] * (3 - len(rest))])} |"


def figure(evidence: dict[str, Any], column: tuple[str, str, str], model: str) -> str:
    found = test_of(evidence, column)["figures"][model]
    low, high = found["interval"]
    return f"{found['value']:.3f} ({low:.2f} to {high:.2f})"


def test_of(evidence: dict[str, Any], column: tuple[str, str, str]) -> dict[str, Any]:
    return next(
        test
        for test in evidence["tests"]
        if (test["surface"], test["attack"]) == (column[0], column[1])
    )


def oracle_row(evidence: dict[str, Any]) -> str:
    cells = []
    for column in COLUMNS:
        figures = test_of(evidence, column)["figures"]
        values = [f["value"] for name, f in figures.items() if name.startswith("oracle ")]
        cells.append(f"{statistics.fmean(values):.3f} ({min(values):.2f} to {max(values):.2f})")
    pps = evidence["preservation"]["oracle"]["pps"]
    return row(f"retrained, {len(evidence['oracles'])} oracles", cells, f"{pps:.3f}", "100%")


def variant_row(variant: str, evidence: dict[str, Any]) -> str:
    cells = [figure(evidence, column, "candidate") for column in COLUMNS]
    cost = evidence["cost"]
    share = cost["forget_cpu_seconds"] / cost["retrain_cpu_seconds"]
    pps = evidence["outcome"]["pps"]
    return row(variant, cells, f"{pps:.3f}", f"{share:.1%}", evidence["verdict"]["verdict"])


def controls(audits: dict[str, Audit]) -> str:
    """Controls that did not hold, over all audits of the run."""
    every = [control for audit in audits.values() for control in audit.evidence["controls"]]
    first = next(iter(audits.values())).evidence["controls"]
    held = [control["name"] for control in first if control["holds"]]
    words = f"Controls that held in the first audit: {', '.join(held) or 'none'}."
    broken = sorted({control["name"] for control in every if control["holds"] is False})
    return f"{words} Controls that did not hold in some audit: {', '.join(broken) or 'none'}."


def relearning(audits: dict[str, Audit]) -> str:
    """Epochs to learn the target's samples again."""
    first = next(iter(audits.values())).evidence["relearn"]["epochs"]
    anchors = {name: epochs for name, epochs in first.items() if name != "candidate"}
    words = [f"{name} {count(epochs)}" for name, epochs in anchors.items()]
    own = [
        f"{variant} {count(audit.evidence['relearn']['epochs']['candidate'])}"
        for variant, audit in audits.items()
    ]
    return f"Epochs to learn them again: {', '.join(words)}; {', '.join(own)}."


def count(epochs: int | None) -> str:
    return "never" if epochs is None else str(epochs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root", required=True)
    parser.add_argument("--runs", type=Path, required=True, help="where runs and oracles are kept")
    parser.add_argument("--data", nargs="+", default=["cifar10", "femnist"])
    parser.add_argument("--personalizations", nargs="+", default=["fedper", "fedrep"])
    parser.add_argument("--oracles", type=int, default=4)
    parser.add_argument("--write", action="store_true", help="update docs/fidelity.md")
    chosen = parser.parse_args()
    tables = []
    for data in chosen.data:
        for personalization in chosen.personalizations:
            with trained(chosen.runs, data, personalization, chosen.data_root) as federation:
                name = f"{data}, {personalization}"
                tables.append(table(name, audited(federation, chosen.oracles)))
    text = "\n".join(tables)
    print(text)
    if chosen.write:
        write_page(PAGE, "audits", text)


if __name__ == "__main__":
    main()
