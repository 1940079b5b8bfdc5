"""Ours: ten clients leave one after another."""

from __future__ import annotations

from pfedul.experiments.base import Experiment, Group, Picture
from pfedul.experiments.rows import DEFAULT, NO_UNLEARN, PRINTED, RETRAIN, WITHOUT_ROUNDS

COUNTS = (1, 2, 5, 10)

SEQUENCE = Experiment(
    name="sequence",
    summary="ten removals one after another",
    source="",
    groups=[
        Group("CIFAR-10, FedRep", str(n), "cifar10", "fedrep", leaving=n, in_turn=n > 1)
        for n in COUNTS
    ],
    rows=(NO_UNLEARN, PRINTED, WITHOUT_ROUNDS, DEFAULT, RETRAIN),
    columns=("mia", "pps", "cfi", "cpu_speedup"),
    picture=Picture("lines", "clients that have left", COUNTS),
    notes=("the same clients leave first in every column, so each continues the one before",),
)
