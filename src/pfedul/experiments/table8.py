"""Table 8: what a removal costs against retraining. FedRep, from the cells of Table 4."""

from __future__ import annotations

from pfedul.experiments.base import Experiment, Group, printed
from pfedul.experiments.claims import Claim, between
from pfedul.experiments.rows import (
    DEFAULT,
    FEDERASER,
    FINE_TUNE,
    GA_NAIVE,
    PRINTED,
    RETRAIN,
    WITHOUT_ROUNDS,
)
from pfedul.experiments.table4 import DATA

COLUMNS = ("seconds", "speedup", "cpu", "cpu_speedup", "rounds", "sent")
_PRINTED = ("seconds", "speedup", "rounds")

TABLE8 = Experiment(
    name="table8",
    summary="time, speed-up over retraining and rounds, under FedRep (cells of table4)",
    source="Table 8",
    groups=[Group(name, "FedRep", data, "fedrep") for name, data in DATA.items()],
    rows=(RETRAIN, FEDERASER, GA_NAIVE, FINE_TUNE, PRINTED, WITHOUT_ROUNDS, DEFAULT),
    columns=COLUMNS,
    printed=printed(
        "CIFAR-10",
        ["FedRep"],
        _PRINTED,
        """
        Retrain          | 4826 1.0 200
        FedEraser-adapt. | 1438 3.4 58
        GA-Naive         | 486 9.9 20
        Fine-tune        | 762 6.3 30
        pFedUL           | 574 8.4 0
        """,
    )
    | printed(
        "CIFAR-100",
        ["FedRep"],
        _PRINTED,
        """
        Retrain          | 5143 1.0 200
        FedEraser-adapt. | 1592 3.2 62
        GA-Naive         | 524 9.8 20
        Fine-tune        | 831 6.2 30
        pFedUL           | 613 8.4 0
        """,
    )
    | printed(
        "FEMNIST",
        ["FedRep"],
        _PRINTED,
        """
        Retrain          | 3917 1.0 200
        FedEraser-adapt. | 1089 3.6 55
        GA-Naive         | 398 9.8 20
        Fine-tune        | 615 6.4 30
        pFedUL           | 468 8.4 0
        """,
    ),
    claims=(
        Claim(
            "Section 4.8",
            "pFedUL is 8.4 times faster than retraining, by the clock",
            between("pFedUL", "speedup", 7, 10),
        ),
    ),
)
