"""The number of recalibration epochs, E_r: Section 4.1. FedRep on CIFAR-10."""

from __future__ import annotations

from pfedul.experiments.base import Experiment, Picture, Row, printed
from pfedul.experiments.claims import Claim, above, apart
from pfedul.experiments.table7 import CIFAR10_FEDREP

EPOCHS = (0, 1, 2, 5)


def _rows(start: str, options: str) -> list[Row]:
    how = {n: f"recalibration-epochs={n}" if n else "no-recalibration=true" for n in EPOCHS}
    return [Row(f"{start}E_r = {n}", f"pfedul:{options}{own}") for n, own in how.items()]


RECALIBRATION_EPOCHS = Experiment(
    name="recalibration-epochs",
    summary="0, 1, 2 and 5 epochs of recalibration",
    source="Section 4.1",
    groups=(CIFAR10_FEDREP,),
    rows=(
        *_rows("", "correction=paper,"),
        *_rows("ours, ", ""),
        Row("ours, thorough", "pfedul", "until the head has converged: the default"),
    ),
    columns=("mia", "pps"),
    printed=printed(
        "CIFAR-10",
        ["FedRep"],
        ("pps",),
        """
        E_r = 1 | .948
        E_r = 2 | .975
        E_r = 5 | .977
        """,
    ),
    picture=Picture(
        "lines",
        "epochs of recalibration",
        EPOCHS,
        {
            "as printed": [f"E_r = {n}" for n in EPOCHS],
            "ours": [f"ours, E_r = {n}" for n in EPOCHS],
        },
    ),
    notes=("the paper has .948 for E_r = 1 here, and for no recalibration at all in Section 4.5",),
    claims=(
        Claim(
            "Section 4.1",
            "two epochs keep .027 more PPS than one",
            above("E_r = 2", "E_r = 1", "pps", 0.015),
        ),
        Claim(
            "Section 4.1",
            "five epochs keep .002 more PPS than two",
            apart("E_r = 5", "E_r = 2", "pps", 0.01),
        ),
    ),
)
