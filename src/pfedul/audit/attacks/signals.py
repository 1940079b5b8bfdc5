"""What an attacker reads off a model's answer: loss, entropy, margin, correctness, confidence.

All from logits [samples, classes] and labels [samples], one number per sample. The
logit-scaled confidence is that of N. Carlini et al., "Membership inference attacks
from first principles", IEEE S&P 2022 (arXiv 2112.03570). Their code takes logarithms
of probabilities with 1e-45 added. Here it is computed from the logits: the softmax's
denominators cancel, so it *is* the margin, and never saturates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pfedul.audit.attacks.arrays import Array, logits_and_labels


def log_sum_exp(values: Array) -> Array:
    """log(sum(exp(row))) of each row, without overflow; -inf entries count as absent."""
    peak = values.max(axis=1, keepdims=True)
    total: Array = np.log(np.exp(values - peak).sum(axis=1)) + peak[:, 0]
    return total


def log_softmax(logits: Array) -> Array:
    """Logarithms of the probabilities of each row."""
    return logits - log_sum_exp(logits)[:, None]


def loss(logits: ArrayLike, labels: ArrayLike) -> Array:
    """Cross-entropy, -log p_y."""
    table, classes = logits_and_labels(logits, labels)
    return log_sum_exp(table) - table[np.arange(len(table)), classes]


def entropy(logits: ArrayLike, labels: ArrayLike) -> Array:
    """Entropy of the predicted distribution; the labels are only checked."""
    table, _ = logits_and_labels(logits, labels)
    logs = log_softmax(table)
    # p log p tends to 0 with p: where p underflows its logarithm is finite, so no NaN
    sums: Array = np.abs((np.exp(logs) * logs).sum(axis=1))
    return sums


def margin(logits: ArrayLike, labels: ArrayLike) -> Array:
    """Logit of the label minus log-sum-exp of the other logits."""
    table, classes = logits_and_labels(logits, labels)
    rows = np.arange(len(table))
    others = table.copy()
    others[rows, classes] = -np.inf
    return table[rows, classes] - log_sum_exp(others)


def confidence(logits: ArrayLike, labels: ArrayLike) -> Array:
    """p_y, the probability of the label."""
    return np.exp(-loss(logits, labels))


def correctness(logits: ArrayLike, labels: ArrayLike) -> Array:
    """1 where the label has the largest logit, else 0."""
    table, classes = logits_and_labels(logits, labels)
    right: Array = (table.argmax(axis=1) == classes).astype(np.float64)
    return right
