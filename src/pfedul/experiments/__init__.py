"""Experiments: the paper's tables and figures, and our own, one file each."""

from pfedul.base.registry import Registry
from pfedul.experiments.base import Experiment
from pfedul.experiments.client_ratios import CLIENT_RATIOS
from pfedul.experiments.figure2 import FIGURE2
from pfedul.experiments.figure3 import FIGURE3A, FIGURE3B, FIGURE3C
from pfedul.experiments.frontier import FRONTIER
from pfedul.experiments.recalibration_epochs import RECALIBRATION_EPOCHS
from pfedul.experiments.sequence import SEQUENCE
from pfedul.experiments.table2 import TABLE2
from pfedul.experiments.table4 import TABLE4, TABLE5
from pfedul.experiments.table6 import TABLE6
from pfedul.experiments.table7 import TABLE7
from pfedul.experiments.table8 import TABLE8
from pfedul.experiments.table9 import TABLE9

__all__ = ["EXPERIMENTS", "Experiment"]

EXPERIMENTS: Registry[Experiment] = Registry(
    "experiment",
    *(TABLE2, TABLE4, TABLE5, TABLE6, TABLE7, TABLE8, TABLE9),
    *(FIGURE2, FIGURE3A, FIGURE3B, FIGURE3C),
    *(RECALIBRATION_EPOCHS, CLIENT_RATIOS, FRONTIER, SEQUENCE),
    group="pfedul.experiments",
)
