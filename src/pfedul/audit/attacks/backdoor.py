"""Backdoor: does the trigger that the forgotten client planted still work?

T. Gu, B. Dolan-Gavitt, S. Garg, "BadNets" (arXiv 1708.06733) is the trigger; its use
to verify unlearning is D. M. Sommer et al., "Athena: probabilistic verification of
machine unlearning", PETS 2022 (arXiv 2003.04247). Samples of the trigger's own class
are left out: they would count as success without any trigger. A rate near 0 is
necessary, not sufficient, and an oracle's rate is rarely 0: always show both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pfedul.audit.attacks.arrays import logits_and_labels
from pfedul.audit.attacks.base import Estimate, Metric
from pfedul.audit.attacks.intervals import clopper_pearson
from pfedul.errors import PfedulError

TRIGGER_SUCCESS = Metric("trigger success", best=0.0, higher_is_better=False)
"""Share of triggered samples of other classes that are taken for the trigger's class."""


def backdoor_attack(logits: ArrayLike, labels: ArrayLike, trigger_class: int) -> Estimate:
    """Success rate of the trigger on samples that all carry it; `labels` are the true ones.

    >>> logits = [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    >>> backdoor_attack(logits, [0, 0, 1], trigger_class=1).value
    0.5
    """
    table, classes = logits_and_labels(logits, labels)
    others = classes != trigger_class
    if not 0 <= trigger_class < table.shape[1] or not others.any():
        raise PfedulError(
            f"A backdoor to class {trigger_class} needs that class among the logits, "
            "and triggered samples of other classes."
        )
    fooled = int(np.sum(table[others].argmax(axis=1) == trigger_class))
    trials = int(others.sum())
    return Estimate(TRIGGER_SUCCESS, fooled / trials, clopper_pearson(fooled, trials))
