"""Documents of comparisons as tests want them: all that pages and tables read, made up."""

from __future__ import annotations

from typing import Any

from pfedul.compare.document import FIGURES, INTERVALS, method_rows

Row = dict[str, Any]


def figures(excess: float, pps: float = 1.0) -> Row:
    shared = {"shared_accuracy_before": None, "shared_accuracy_after": None}
    intervals = dict.fromkeys(INTERVALS, (0.9, 1.1))
    return {**dict.fromkeys(FIGURES, 1.0), **intervals, **shared, "mean_excess": excess, "pps": pps}


def reached(auc: float) -> list[Row]:
    """The tests of one attack on one surface."""
    test = {"surface": "stale", "attack": "rmia", "difference": {"value": auc - 0.5}}
    return [{**test, "figures": {"candidate": {"value": auc}}}]


def cell(label: str, excess: float, pps: float = 1.0, **changes: Any) -> Row:
    return {
        "label": label,
        "method": label.partition(":")[0],
        "control": False,
        "asked": True,
        "own_base": False,
        "seed": None,
        "failure": None,
        "verdict": "forgotten",
        **figures(excess, pps),
        "tests": reached(0.6),
        "notes": [],
        **changes,
    }


def failed(label: str, why: str, **changes: Any) -> Row:
    nothing = dict.fromkeys((*FIGURES, *INTERVALS))
    return cell(label, 0.0) | {"failure": why, "verdict": None, **nothing, "tests": []} | changes


def reference(label: str, excess: float, pps: float = 1.0, **changes: Any) -> Row:
    return {
        "label": label,
        "verdict": "not forgotten" if label == "untouched" else "not enough evidence",
        **figures(excess, pps),
        "tests": reached(0.7),
        **changes,
    }


def comparison(seed: int = 0, cells: list[Row] | None = None, **changes: Any) -> Row:
    """A document; its oracles lie at 0.1 and -0.1 of the excess unless told."""
    rows = [cell("none", 0.3, control=True)] if cells is None else cells
    return {
        "data": "digits",
        "personalization": "fedper",
        "rounds": 3,
        "seed": seed,
        "made_at": f"2026-01-0{seed + 1}",
        "machine": "a machine",
        "versions": {"pfedul": "1"},
        "configuration": f"seed = {seed}\n",
        "targets": [f"c{seed}"],
        "command": f"pfedul compare run-{seed}",
        "training_cpu_seconds": 2.0 + seed,
        "references": [
            reference("untouched", 0.3),
            reference("oracle 1", 0.1, 0.9),
            reference("oracle 2", -0.1, 0.95),
        ],
        "methods": method_rows(rows),
        "cells": rows,
        **changes,
    }
