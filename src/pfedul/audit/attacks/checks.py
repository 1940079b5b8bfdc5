"""Checks with inputs of their own: planted triggers, and the distance from an oracle's answers.

Backdoor: does the trigger that the forgotten client planted still work? T. Gu, B.
Dolan-Gavitt, S. Garg, "BadNets" (arXiv 1708.06733) is the trigger; its use to verify
unlearning is D. M. Sommer et al., "Athena: probabilistic verification of machine
unlearning", PETS 2022 (arXiv 2003.04247). Samples of the trigger's own class are left
out: they would count as success without any trigger. A rate near 0 is necessary, not
sufficient, and an oracle's rate is rarely 0: always show both.

Prediction distance: how differently do candidate and oracle answer the same samples? The
divergence of outputs from a retrained model is the readout of A. Golatkar, A. Achille, S.
Soatto, ECCV 2020 (arXiv 2003.02960), and with Jensen-Shannon of V. S. Chundawat et al.,
AAAI 2023 (arXiv 2205.08096). Here KL(oracle || candidate), which grows where the candidate
rules out what the oracle holds possible. Two oracles are not at distance 0: read it next to
the distance between two of them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from pfedul.audit.attacks.arrays import Array, finite, logits_and_labels
from pfedul.audit.attacks.base import Estimate, Metric
from pfedul.audit.attacks.intervals import clopper_pearson, stratified_bootstrap
from pfedul.audit.attacks.signals import log_softmax
from pfedul.errors import PfedulError

TRIGGER_SUCCESS = Metric("trigger success", best=0.0, higher_is_better=False)
"""Share of triggered samples of other classes that are taken for the trigger's class."""
KL_FROM_ORACLE = Metric("KL from oracle", best=0.0, higher_is_better=False, high=math.inf)
"""Mean Kullback-Leibler divergence of the candidate's answers from the oracle's, nats."""
AGREEMENT = Metric("agreement with oracle", best=1.0, higher_is_better=True)
"""Share of samples that candidate and oracle give the same class."""


def backdoor_attack(logits: ArrayLike, labels: ArrayLike, trigger_class: int) -> Estimate:
    """Success rate of the trigger on samples that all carry it; `labels` are the true ones."""
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


def distance_attack(
    oracle: ArrayLike, candidate: ArrayLike, seed: int = 0, draws: int = 2000
) -> tuple[Estimate, Estimate]:
    """Mean divergence and agreement of two arrays of logits, [samples, classes] both."""
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
    """KL(oracle || candidate) of each row of logits."""
    logs = log_softmax(oracle)
    sums: Array = (np.exp(logs) * (logs - log_softmax(candidate))).sum(axis=1)
    # rounding can leave -1e-17 where the two are equal
    return np.maximum(sums, 0.0)
