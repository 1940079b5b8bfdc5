"""Experiments: the paper's tables and figures, and our own, one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfedul.base.registry import Registry

if TYPE_CHECKING:
    from pfedul.experiments.base import Experiment

EXPERIMENTS: Registry[Experiment] = Registry(
    "experiment",
    {
        "table2": "pfedul.experiments.table2:TABLE2",
        "table4": "pfedul.experiments.table4:TABLE4",
        "table5": "pfedul.experiments.table4:TABLE5",
        "table6": "pfedul.experiments.table6:TABLE6",
        "table7": "pfedul.experiments.table7:TABLE7",
        "table8": "pfedul.experiments.table8:TABLE8",
        "table9": "pfedul.experiments.table9:TABLE9",
        "figure2": "pfedul.experiments.figure2:FIGURE2",
        "figure3a": "pfedul.experiments.figure3:FIGURE3A",
        "figure3b": "pfedul.experiments.figure3:FIGURE3B",
        "figure3c": "pfedul.experiments.figure3:FIGURE3C",
        "recalibration-epochs": "pfedul.experiments.recalibration_epochs:RECALIBRATION_EPOCHS",
        "client-ratios": "pfedul.experiments.client_ratios:CLIENT_RATIOS",
        "frontier": "pfedul.experiments.frontier:FRONTIER",
        "sequence": "pfedul.experiments.sequence:SEQUENCE",
    },
    group="pfedul.experiments",
)
