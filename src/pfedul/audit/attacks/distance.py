"""Prediction distance: how differently candidate and oracle answer the same samples.

The divergence of outputs from a retrained model is the readout of A. Golatkar, A.
Achille, S. Soatto, ECCV 2020 (arXiv 2003.02960), and with Jensen-Shannon of V. S.
Chundawat et al., AAAI 2023 (arXiv 2205.08096). Here KL(oracle || candidate), which
grows where the candidate rules out what the oracle holds possible. Two oracles are
not at distance 0: read it next to the distance between two of them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from pfedul.audit.attacks.arrays import Array, finite
from pfedul.audit.attacks.base import Estimate, Metric
from pfedul.audit.attacks.intervals import clopper_pearson, stratified_bootstrap
from pfedul.audit.attacks.signals import log_softmax
from pfedul.errors import PfedulError

KL_FROM_ORACLE = Metric("KL from oracle", best=0.0, higher_is_better=False, high=math.inf)
"""Mean Kullback-Leibler divergence of the candidate's answers from the oracle's, nats."""
AGREEMENT = Metric("agreement with oracle", best=1.0, higher_is_better=True)
"""Share of samples that candidate and oracle give the same class."""


def distance_attack(
    oracle: ArrayLike, candidate: ArrayLike, seed: int = 0, draws: int = 2000
) -> tuple[Estimate, Estimate]:
    """Mean divergence and agreement of two arrays of logits, [samples, classes] both.

    >>> divergence, agreement = distance_attack([[0.0, 0.0], [9.0, 0.0]], [[0.0, 0.0], [9.0, 0.0]])
    >>> divergence.value, agreement.value
    (0.0, 1.0)
    """
    ours, theirs = finite("candidate's logits", candidate, 2), finite("oracle's logits", oracle, 2)
    if ours.shape != theirs.shape:
        raise PfedulError(
            f"Oracle and candidate must answer the same samples: their logits have the shapes "
            f"{theirs.shape} and {ours.shape}."
        )
    divergence = np.sort(kl_divergence(theirs, ours))
    same = int((ours.argmax(axis=1) == theirs.argmax(axis=1)).sum())
    interval = stratified_bootstrap([divergence], np.mean, seed, draws)
    return (
        Estimate(KL_FROM_ORACLE, float(divergence.mean()), interval),
        Estimate(AGREEMENT, same / len(ours), clopper_pearson(same, len(ours))),
    )


def kl_divergence(oracle: Array, candidate: Array) -> Array:
    """KL(oracle || candidate) of each row of logits.

    >>> three_to_one = np.array([[np.log(3), 0.0]])
    >>> kl_divergence(np.array([[0.0, 0.0]]), three_to_one).round(4)  # log(4 / 3) / 2
    array([0.1438])
    """
    logs = log_softmax(oracle)
    sums: Array = (np.exp(logs) * (logs - log_softmax(candidate))).sum(axis=1)
    # rounding can leave -1e-17 where the two are equal
    return np.maximum(sums, 0.0)
