"""Ours: every method, by how much of the leak it removes, what it keeps, and what it costs."""

from __future__ import annotations

from pfedul.experiments.base import RETRAINED, UNTOUCHED, Experiment, Group, Picture, Row
from pfedul.unlearn.methods import METHODS

# Retraining is measured by the oracles; budgets are in units of the default removal.
LEFT_OUT = ("retrain",)


def _labels() -> list[str]:
    kept = [method for method in METHODS if method.name not in LEFT_OUT]
    return [label for method in kept for label in (method.name, *method.about.variants)]


FRONTIER = Experiment(
    name="frontier",
    summary="every method: leak removed, PPS and cost",
    source="",
    groups=[
        Group("CIFAR-10", "FedPer", "cifar10", "fedper"),
        Group("CIFAR-10", "FedRep", "cifar10", "fedrep"),
    ],
    rows=(
        Row(UNTOUCHED, UNTOUCHED),
        Row(RETRAINED, RETRAINED),
        *(Row(label, label) for label in _labels()),
    ),
    columns=("removed", "pps", "cfi", "cpu_speedup"),
    picture=Picture("frontier"),
)
