"""RMIA: is the model surer of a sample, relative to models without it, than of other samples?

S. Zarifzadeh, P. Liu, R. Shokri, "Low-cost high-power membership inference attacks",
ICML 2024 (arXiv 2312.03262), offline form: the reference models never saw the sample,
and p(x) is guessed as ((1 + a) mean_out(x) + (1 - a)) / 2. Oracles are such models.
As in the paper a ratio equal to gamma counts; the authors' code (Privacy Meter) asks
for more than 1, and searches for a. Here a = 0.3 and gamma = 1 are the defaults, and
the population z must be neither members nor the non-members under test. It should be
several times as large as these: no score exceeds 1, and a non-member who beats a small
population entirely ties with every member, which hides them at few false positives.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from pfedul.audit.attacks.arrays import Array, probabilities, same_samples
from pfedul.audit.attacks.base import Attack, Pair, View
from pfedul.audit.attacks.signals import confidence
from pfedul.errors import PfedulError

Confidences = tuple[ArrayLike, ArrayLike]
"""Confidences p_y of the attacked model [samples] and of the reference models [models, samples]."""


def rmia_scores(
    samples: Confidences, population: Confidences, a: float = 0.3, gamma: float = 1.0
) -> Array:
    """For each sample the share of the population that it beats by the factor gamma."""
    if not 0 <= a <= 1 or not gamma > 0:
        raise PfedulError(f"RMIA needs a from 0 to 1 and gamma above 0, not {a} and {gamma}.")
    beaten_from = np.sort(gamma * _ratios("population", population, a))
    beaten = np.searchsorted(beaten_from, _ratios("samples", samples, a), side="right")
    return np.asarray(beaten / len(beaten_from), dtype=np.float64)


def _ratios(whose: str, confidences: Confidences, a: float) -> Array:
    target = probabilities(f"confidences of the {whose}", confidences[0])
    references = probabilities(f"reference confidences of the {whose}", confidences[1], axes=2)
    same_samples(f"confidences of the {whose}", target, references)
    guess = ((1 + a) * references.mean(axis=0) + (1 - a)) / 2
    if not guess.all():
        raise PfedulError("With a = 1 every sample needs a reference confidence above 0.")
    ratio: Array = target / guess
    return ratio


def _score(view: View, references: Sequence[View]) -> Pair:
    def sureness(name: str) -> Confidences:
        labels = getattr(view.labels, name)
        own, *others = (confidence(getattr(seen, name), labels) for seen in (view, *references))
        return own, np.stack(others)

    population = sureness("population")
    members, nonmembers = sureness("members"), sureness("nonmembers")
    return rmia_scores(members, population), rmia_scores(nonmembers, population)


RMIA = Attack(
    name="rmia",
    title="RMIA",
    summary="confidence relative to oracles and to a population; most power for few models",
    explanation=(
        "The attacker compares how sure this model is of a sample with how sure retrained "
        "models are of it, which never saw it, and takes what only this model is sure of "
        "for trained on. It is the sharpest attack here when few retrained models are at "
        "hand."
    ),
    paper="Zarifzadeh et al., ICML 2024, arXiv 2312.03262",
    score=_score,
    needs_references=True,
)
