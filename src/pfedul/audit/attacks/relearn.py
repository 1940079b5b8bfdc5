"""Relearn time: how soon a model is as good again on the forgotten samples when trained on them.

A. Golatkar, A. Achille, S. Soatto, ECCV 2020 (arXiv 2003.02960), and A. K. Tarun et
al., "Fast yet effective machine unlearning", IEEE TNNLS 2023 (arXiv 2111.08947),
who count epochs up to the loss, or the accuracy within a margin, of the original
model. What was hidden and not erased comes back sooner than an oracle learns it.
Here the count is of accuracy, with anchors: the original model (0 epochs), an oracle
(what to hope for) and a fresh one (had anything of use been learnt from the others?).
Start all from equal utility on the remaining clients, with the same learning rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from numpy.typing import ArrayLike

from pfedul.audit.attacks.arrays import probabilities
from pfedul.audit.attacks.base import Attack
from pfedul.base.metric import Metric
from pfedul.errors import PfedulError

EPOCHS_SAVED = Metric(
    name="relearn epochs saved",
    best=0.0,
    low=-math.inf,
    high=math.inf,
    higher_is_better=None,
    summary="epochs by which the candidate is back at the old accuracy before the oracle is",
)


@dataclass(frozen=True)
class Relearning:
    """Epochs to return to the old accuracy; None where the curve never got there."""

    candidate: int | None
    original: int | None
    oracle: int | None
    fresh: int | None

    @property
    def saved(self) -> int | None:
        """Epochs the candidate was ahead of the oracle; None where either never got there."""
        if self.candidate is None or self.oracle is None:
            return None
        return self.oracle - self.candidate


def relearn(
    old_accuracy: float,
    candidate: ArrayLike,
    original: ArrayLike,
    oracle: ArrayLike,
    fresh: ArrayLike,
    tolerance: float = 0.0,
) -> Relearning:
    """Epochs of the candidate and its anchors; every curve starts before the first epoch.

    >>> found = relearn(0.9, [0.5, 0.9], [0.9, 0.9], [0.4, 0.7, 0.9], [0.1, 0.2])
    >>> found.candidate, found.original, found.oracle, found.fresh, found.saved
    (1, 0, 2, None, 1)
    """
    curves = {"candidate": candidate, "original": original, "oracle": oracle, "fresh": fresh}
    return Relearning(
        **{name: epochs_to_return(curve, old_accuracy, tolerance) for name, curve in curves.items()}
    )


def epochs_to_return(curve: ArrayLike, old_accuracy: float, tolerance: float = 0.0) -> int | None:
    """The first epoch at which the curve is back at the old accuracy, or within the tolerance.

    >>> epochs_to_return([0.2, 0.6, 0.8, 0.7], old_accuracy=0.8)
    2
    >>> epochs_to_return([0.2, 0.6], old_accuracy=0.8) is None
    True
    """
    accuracies = probabilities("accuracies of the curve", curve)
    if not (0 <= old_accuracy <= 1 and tolerance >= 0):
        raise PfedulError("The old accuracy must be from 0 to 1, and the tolerance from 0 up.")
    # 1e-12: 0.9 - 0.1 must be within 0.1 of 0.9
    there = accuracies >= old_accuracy - tolerance - 1e-12
    return int(there.argmax()) if there.any() else None


RELEARN = Attack(
    name="relearn",
    summary="epochs to learn the forgotten samples again; finds what is hidden, not erased",
    paper="Golatkar et al., ECCV 2020, arXiv 2003.02960; Tarun et al., TNNLS 2023, "
    "arXiv 2111.08947",
    metrics=(EPOCHS_SAVED,),
    oracles=1,
    unlearned=1,
    run=relearn,
)
