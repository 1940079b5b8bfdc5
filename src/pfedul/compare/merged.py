"""Comparisons of several runs as one document: the same federation trained with several seeds.

How much of a difference between methods is luck of the training shows only there. Rows of
methods are means over all cells; so is that of the untouched runs. Oracles of different runs
have nothing in common but their names, so one row is the mean over all of them, and each
stands for itself in `reference_cells`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pfedul.compare.document import FIGURES, mean_of, method_rows, spread_of
from pfedul.compare.words import is_oracle, verdict_words
from pfedul.errors import PfedulError

Json = Mapping[str, Any]


def merged(documents: Sequence[Json]) -> dict[str, Any]:
    """One document of several, which must be of the same data and personalisation."""
    _check_alike(documents)
    cells = [{**cell, "seed": found["seed"]} for found in documents for cell in found["cells"]]
    known = [{**row, "seed": found["seed"]} for found in documents for row in found["references"]]
    return {
        **documents[0],
        "made_at": max(found["made_at"] for found in documents),
        "targets": list(dict.fromkeys(name for found in documents for name in found["targets"])),
        "runs": [{key: found[key] for key in ("seed", "targets")} for found in documents],
        "command": "\n".join(found["command"] for found in documents),
        "configuration": "\n".join(map(_configuration, documents)),
        "training_cpu_seconds": mean_of(found["training_cpu_seconds"] for found in documents),
        "references": _references(known),
        "reference_cells": [{**row, "tests": []} for row in known],
        "methods": method_rows(cells),
        "cells": cells,
    }


def _check_alike(documents: Sequence[Json]) -> None:
    first = documents[0]
    for other in documents[1:]:
        for key in ("data", "personalization", "rounds"):
            if other[key] != first[key]:
                raise PfedulError(
                    f"These comparisons differ in {key} ({first[key]}, {other[key]}); "
                    "merge those of one federation with several seeds."
                )


def _configuration(found: Json) -> str:
    heading = f"# The run with seed {found['seed']}, of which {', '.join(found['targets'])}"
    return f"{heading} is forgotten:\n{found['configuration']}"


def _references(rows: Sequence[Json]) -> list[dict[str, Any]]:
    untouched = [row for row in rows if not is_oracle(row)]
    oracles = [row for row in rows if is_oracle(row)]
    named = (("untouched", untouched), ("oracles", oracles))
    return [_mean(name, some) for name, some in named if some]


def _mean(label: str, rows: Sequence[Json]) -> dict[str, Any]:
    """Figures are means; verdicts and tests are those of all runs."""
    known = [name for name in FIGURES if name in rows[0]]
    verdicts = [row["verdict"] for row in rows]
    return {
        "label": label,
        "verdict": verdict_words(verdicts),
        "verdicts": verdicts,
        **{name: mean_of(row[name] for row in rows) for name in known},
        "spread": {name: spread_of(row[name] for row in rows) for name in known},
        "tests": [test for row in rows for test in row["tests"]],
    }
