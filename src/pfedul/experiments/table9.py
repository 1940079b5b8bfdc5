"""Table 9: a large target, a target with classes of its own, three targets one after another."""

from __future__ import annotations

from pfedul.experiments.base import Experiment, Group, Row, printed
from pfedul.experiments.claims import Claim, between
from pfedul.experiments.rows import DEFAULT, FINE_TUNE, NO_UNLEARN, PRINTED, RETRAIN

COLUMNS = ("mia", "pps", "cfi")
NAMES = ("Imbalanced", "Rare-Class", "Sequential")


PART = "CIFAR-10, FedRep"
LARGE = {"partition": "imbalanced:share=0.2,alpha=0.5"}
RARE = {"partition": "rare-class:classes=0+1,share=0.85,alpha=0.5"}

TABLE9 = Experiment(
    name="table9",
    summary="a large target, rare classes, three removals one after another",
    source="Table 9",
    groups=(
        Group(PART, "Imbalanced", "cifar10", "fedrep", LARGE, first=True),
        Group(PART, "Rare-Class", "cifar10", "fedrep", RARE, first=True),
        Group(PART, "Sequential", "cifar10", "fedrep", leaving=3, in_turn=True),
    ),
    rows=(NO_UNLEARN, FINE_TUNE, Row("ZeroFU-adapt.", "zerofu"), PRINTED, DEFAULT, RETRAIN),
    columns=COLUMNS,
    printed=printed(
        PART,
        NAMES,
        COLUMNS,
        """
        Fine-tune     | 62.3 .918 .872 61.5 .901 .856 63.8 .892 .841
        ZeroFU-adapt. | 55.8 .886 .843 54.6 .873 .831 57.1 .861 .818
        pFedUL        | 52.6 .958 .939 52.1 .951 .932 53.4 .943 .921
        Retrain       | 50.3 1.00 1.00 50.1 1.00 1.00 50.2 1.00 1.00
        """,
    ),
    notes=(
        "sequential: PPS and CFI are over the whole sequence, and one audit is of all who left",
    ),
    claims=(
        Claim(
            "Section 4.9",
            "in all three settings the attack is right in at most 53.4 %",
            between("pFedUL", "mia", 46.6, 53.4),
        ),
        Claim(
            "Section 4.9",
            "in all three settings PPS is at least .943",
            between("pFedUL", "pps", 0.943, 9),
        ),
    ),
)
