"""How often does the federation of `make demo` show what the demo shows? With ten seeds.

    python bench/demo.py [--seeds 0 1 2 ...] [--config demo.toml] [--runs FOLDER] [--retrain]

Every seed deals the samples anew and trains a federation of its own. Then three removals of the
demo's client are rehearsed from the same checkpoint, with the evidence of level `instant`: the
paper's rule, the default, and with `--retrain` retraining without the client. Rows are printed
as they come, then the sums. Runs stay in FOLDER, if one is given: called again, the bench trains
none of them twice.
"""

from __future__ import annotations

import argparse
import tempfile
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pfedul import Federation
from pfedul.audit.judge.instant import ERROR_RATE
from pfedul.base.text import number, percent

CONFIG = Path(__file__).parent.parent / "demo.toml"
TARGET = "client-00"
REMOVALS: dict[str, dict[str, Any]] = {"paper": {"correction": "paper"}, "default": {}}
RETRAIN: dict[str, dict[str, Any]] = {"retrain": {"method": "retrain"}}
HEAD = ("seed", "removal", "AUC before", "AUC after", "verdict", "leak gone", "PPS", "price")

Row = dict[str, Any]


def measured(run: Path, config: Mapping[str, Any], seed: int, removals: Sequence[str]) -> list[Row]:
    """A row for each removal, all from the checkpoint of this seed."""
    known = REMOVALS | RETRAIN
    if (run / "ledger.db").is_file():
        federation = Federation.open(run, engine="inline")
    else:
        federation = Federation.create(run, **{**config, "seed": seed, "engine": "inline"})
    with federation:
        federation.train()
        audits = {name: federation.rehearse(TARGET, **known[name]) for name in removals}
    return [row_of(seed, name, audit.evidence) for name, audit in audits.items()]


def row_of(seed: int, name: str, evidence: Mapping[str, Any]) -> Row:
    tests, outcome = evidence["tests"], evidence["outcome"]
    price = evidence["cost"]["forget_cpu_seconds"] / outcome["retraining_cpu_seconds"]
    return {
        "seed": seed,
        "removal": name,
        "before": [test["figures"]["untouched"]["value"] for test in tests],
        "after": [test["figures"]["candidate"]["value"] for test in tests],
        "surfaces": [test["surface"] for test in tests],
        "p": min(test["p"]["before"] for test in tests),
        "verdict": evidence["verdict"]["verdict"],
        "gone": evidence["removed"],
        "pps": outcome["pps"],
        "price": price,
        "samples": evidence["samples"],
    }


def cells_of(row: Row) -> tuple[str, ...]:
    gone = "unknown" if row["gone"] is None else percent(row["gone"]["value"])
    before, after = ("/".join(number(auc, 2) for auc in row[when]) for when in ("before", "after"))
    kept, price = number(row["pps"]), percent(row["price"])
    return (str(row["seed"]), row["removal"], before, after, row["verdict"], gone, kept, price)


def line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def summary(rows: Sequence[Row]) -> list[str]:
    """In how many seeds the client could be seen before, and the verdicts of each removal."""
    leaks = {row["seed"]: row["p"] <= ERROR_RATE for row in rows}
    words = [f"before: a leak in {sum(leaks.values())} of {len(leaks)} seeds (p <= {ERROR_RATE:g})"]
    for name in dict.fromkeys(row["removal"] for row in rows):
        own = [row for row in rows if row["removal"] == name]
        verdicts = Counter(row["verdict"] for row in own).most_common()
        pps, price = (sum(row[key] for row in own) / len(own) for key in ("pps", "price"))
        counts = ", ".join(f"{verdict} {count}" for verdict, count in verdicts)
        words.append(f"{name}: {counts}; mean PPS {number(pps)}, mean price {percent(price)}")
    return words


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=range(10))
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--retrain", action="store_true")
    options = parser.parse_args(arguments)
    removals = [*REMOVALS, *(RETRAIN if options.retrain else ())]
    config, rows = tomllib.loads(options.config.read_text(encoding="utf-8")), []
    print(line(HEAD), line(["---"] * len(HEAD)), sep="\n")
    with tempfile.TemporaryDirectory() as scratch:
        for seed in options.seeds:
            folder = (options.runs or Path(scratch)) / f"demo-{seed}"
            for row in measured(folder, config, seed, removals):
                rows.append(row)
                print(line(cells_of(row)), flush=True)
    print(f"\nSurfaces: {'/'.join(rows[0]['surfaces'])}. Samples: {rows[0]['samples']}.")
    print(*summary(rows), sep="\n")


if __name__ == "__main__":
    main()
