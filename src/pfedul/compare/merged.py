"""Comparisons of several runs as one document: the same federation trained with several seeds.

How much of a difference between methods is luck of the training shows only there. Rows of
methods are means over all cells; the untouched runs and the oracles are averaged as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pfedul.compare.document import FIGURES, mean_of, method_rows
from pfedul.errors import PfedulError

Json = Mapping[str, Any]


def merged(documents: Sequence[Json]) -> dict[str, Any]:
    """One document of several, which must be of the same data and personalisation."""
    first = documents[0]
    for other in documents[1:]:
        for key in ("data", "personalization", "rounds"):
            if other[key] != first[key]:
                raise PfedulError(
                    f"These comparisons differ in {key} ({first[key]}, {other[key]}); "
                    "merge those of one federation with several seeds."
                )
    cells = [{**cell, "seed": found["seed"]} for found in documents for cell in found["cells"]]
    spent = [found["training_cpu_seconds"] for found in documents]
    return {
        **first,
        "targets": list(dict.fromkeys(name for found in documents for name in found["targets"])),
        "command": "\n".join(found["command"] for found in documents),
        "training_cpu_seconds": sum(spent) / len(spent),
        "references": _references(documents),
        "methods": method_rows(cells),
        "cells": cells,
    }


def _references(documents: Sequence[Json]) -> list[dict[str, Any]]:
    labels = dict.fromkeys(row["label"] for found in documents for row in found["references"])
    rows = [row for found in documents for row in found["references"]]
    return [_mean([row for row in rows if row["label"] == label]) for label in labels]


def _mean(rows: Sequence[Json]) -> dict[str, Any]:
    """Figures are means; verdicts and tests are those of all runs."""
    known = [name for name in FIGURES if name in rows[0]]
    verdicts = [row["verdict"] for row in rows]
    return {
        **rows[0],
        "verdict": verdicts[0] if len(set(verdicts)) == 1 else " / ".join(verdicts),
        **{name: mean_of(row[name] for row in rows) for name in known},
        "tests": [test for row in rows for test in row["tests"]],
    }
