"""Accuracy kept by each client, not only on average: Section 4.6. FedRep on CIFAR-10."""

from __future__ import annotations

from pfedul.experiments.base import Experiment, printed
from pfedul.experiments.claims import Claim, between
from pfedul.experiments.rows import DEFAULT, FEDERASER, GA_NAIVE, PRINTED, RETRAIN, WITHOUT_ROUNDS
from pfedul.experiments.table7 import CIFAR10_FEDREP

COLUMNS = ("lowest", "lower_quartile", "median", "upper_quartile", "highest")

CLIENT_RATIOS = Experiment(
    name="client-ratios",
    summary="accuracy after / before, client by client",
    source="the text of Section 4.6",
    groups=(CIFAR10_FEDREP,),
    rows=(GA_NAIVE, FEDERASER, PRINTED, WITHOUT_ROUNDS, DEFAULT, RETRAIN),
    columns=COLUMNS,
    printed=printed(
        "CIFAR-10",
        ["FedRep"],
        COLUMNS,
        """
        GA-Naive         | .742 .793 - .871 .923
        FedEraser-adapt. | .821 -    - -    .918
        pFedUL           | .961 .968 - .982 .993
        """,
    ),
    claims=(
        Claim(
            "Section 4.6",
            "no client keeps less than .961 of its accuracy",
            between("pFedUL", "lowest", 0.961, 9),
        ),
    ),
)
