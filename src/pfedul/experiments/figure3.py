"""Figure 3: the threshold alpha, the skew of the data, and several clients at once."""

from __future__ import annotations

from pfedul.experiments.base import Experiment, Group, Picture, Row, printed
from pfedul.experiments.claims import Claim, above, between, falling_over_groups
from pfedul.experiments.rows import (
    DEFAULT,
    FEDERASER,
    FINE_TUNE,
    GA_NAIVE,
    NO_UNLEARN,
    PRINTED,
    RETRAIN,
)
from pfedul.experiments.table7 import CIFAR10_FEDREP

PART = "CIFAR-10, FedRep"
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)
SKEWS = (0.1, 0.3, 0.5, 1.0)
COUNTS = (1, 3, 5)
BOTH = ("mia", "pps")
ROWS = (NO_UNLEARN, FINE_TUNE, GA_NAIVE, FEDERASER, PRINTED, DEFAULT, RETRAIN)

FIGURE3A = Experiment(
    name="figure3a",
    summary="the threshold sensitivity alpha",
    source="Figure 3a and the text of Section 4.7",
    groups=(CIFAR10_FEDREP,),
    rows=(
        *(Row(f"alpha {a:g}", f"pfedul:correction=paper,alpha={a}") for a in ALPHAS),
        *(Row(f"ours, alpha {a:g}", f"pfedul:layers=high,alpha={a}") for a in ALPHAS),
    ),
    columns=BOTH,
    printed=printed(
        "CIFAR-10",
        ["FedRep"],
        BOTH,
        """
        alpha 0   | 50.5 .953
        alpha 0.5 | 51.1 .975
        alpha 1.5 | 53.8 -
        """,
    ),
    picture=Picture(
        "lines",
        "threshold sensitivity alpha",
        ALPHAS,
        {
            "as printed": [f"alpha {a:g}" for a in ALPHAS],
            "ours": [f"ours, alpha {a:g}" for a in ALPHAS],
        },
    ),
    claims=(
        Claim(
            "Section 4.7",
            "from alpha = 0 to 0.5 PPS rises by .022",
            above("alpha 0.5", "alpha 0", "pps", 0.01),
        ),
        Claim(
            "Section 4.7",
            "from alpha = 0.5 to 1.5 the attack gains 2.7 points",
            above("alpha 1.5", "alpha 0.5", "mia", 1.5),
        ),
    ),
)

FIGURE3B = Experiment(
    name="figure3b",
    summary="the skew of the data: Dirichlet 0.1 to 1",
    source="Figure 3b and the text of Section 4.7",
    groups=[
        Group(PART, f"{a:g}", "cifar10", "fedrep", {"partition": f"dirichlet:{a}"}) for a in SKEWS
    ],
    rows=ROWS,
    columns=BOTH,
    printed=printed(PART, ["0.5"], BOTH, "pFedUL | 51.1 .975"),
    picture=Picture("lines", "Dirichlet alpha: smaller is more skewed", SKEWS),
    notes=("the paper's text says of PPS only that it stays above 0.960",),
    claims=(
        Claim(
            "Section 4.7",
            "PPS stays above .960 at every skew",
            between("pFedUL", "pps", 0.96, 9),
        ),
    ),
)

FIGURE3C = Experiment(
    name="figure3c",
    summary="one, three and five clients at once",
    source="Figure 3c and the text of Section 4.7",
    groups=[Group(PART, str(n), "cifar10", "fedrep", leaving=n) for n in COUNTS],
    rows=ROWS,
    columns=BOTH,
    printed=printed(PART, ["1", "3", "5"], BOTH, "pFedUL | 51.1 .975 - .961 - .942"),
    picture=Picture("lines", "clients that leave at once", COUNTS),
    claims=(
        Claim(
            "Section 4.7",
            "from one client to five at once PPS falls by .033",
            falling_over_groups("pFedUL", "pps", 0.02),
        ),
    ),
)
