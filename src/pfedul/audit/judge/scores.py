"""The attacks that score sample by sample, applied to what models answered on a surface.

A score grows with the suspicion that the sample was trained on. RMIA compares a model
with reference models that never saw the sample: oracles. An oracle cannot be its own
reference, so each is left out in turn: in the fold of oracle k the others are the
references, for oracle k itself and for whoever is compared with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pfedul.audit.ask.answers import Answers
from pfedul.audit.ask.samples import Exam, View
from pfedul.audit.attacks.arrays import Array
from pfedul.audit.attacks.logistic import logistic_scores
from pfedul.audit.attacks.rmia import rmia_scores
from pfedul.audit.attacks.signals import confidence, loss
from pfedul.audit.judge.paired_test import Scores

Pair = tuple[Array, Array]
"""Scores of members and of non-members."""


@dataclass(frozen=True)
class Scorer:
    """An attack as a function of one view and of the same view of reference models."""

    name: str
    score: Callable[[Exam, View, Sequence[View]], Pair]
    needs_references: bool = False


def _threshold(exam: Exam, view: View, _references: Sequence[View]) -> Pair:
    return (
        -loss(view.members, exam.member_labels),
        -loss(view.nonmembers, exam.nonmember_labels),
    )


def _logistic(exam: Exam, view: View, _references: Sequence[View]) -> Pair:
    inside, outside = exam.member_labels, exam.nonmember_labels
    return logistic_scores(view.members, inside, view.nonmembers, outside)


def _rmia(exam: Exam, view: View, references: Sequence[View]) -> Pair:
    repeats = len(view.population) // len(exam.population)  # stale parts of several targets
    labels = {
        "members": exam.member_labels,
        "nonmembers": exam.nonmember_labels,
        "population": np.tile(exam.population_labels, repeats),
    }

    def sureness(name: str) -> tuple[Array, Array]:
        own = confidence(getattr(view, name), labels[name])
        return own, np.stack([confidence(getattr(r, name), labels[name]) for r in references])

    population = sureness("population")
    return rmia_scores(sureness("members"), population), rmia_scores(
        sureness("nonmembers"), population
    )


THRESHOLD = Scorer("threshold", _threshold)
LOGISTIC = Scorer("logistic", _logistic)
RMIA = Scorer("rmia", _rmia, needs_references=True)
SCORERS = (THRESHOLD, LOGISTIC, RMIA)


@dataclass
class ScoreBook:
    """Scores of models on an exam; none is worked out twice."""

    exam: Exam
    _known: dict[tuple[object, ...], Scores] = field(default_factory=dict)

    def of(
        self, scorer: Scorer, surface: str, model: Answers, references: Sequence[Answers] = ()
    ) -> Scores:
        """Of one model, with one choice of references: a single fold."""
        used = tuple(references) if scorer.needs_references else ()
        key = (scorer.name, surface, model, *used)  # holds them: ids would be given out again
        if key not in self._known:
            self._known[key] = self._score(scorer, surface, model, used)
        return self._known[key]

    def _score(
        self, scorer: Scorer, surface: str, model: Answers, references: Sequence[Answers]
    ) -> Scores:
        pairs = [
            scorer.score(self.exam, view, [other.views[surface][place] for other in references])
            for place, view in enumerate(model.views[surface])
        ]
        inside, outside = (np.stack(part)[None] for part in zip(*pairs, strict=True))
        return Scores(inside, outside)

    def folded(
        self, scorer: Scorer, surface: str, model: Answers, oracles: Sequence[Answers]
    ) -> Scores:
        """Of a model beside oracles: one fold for each oracle that is left out."""
        if not scorer.needs_references:
            return self.of(scorer, surface, model)
        folds = [self.of(scorer, surface, model, others) for others in _without_each(oracles)]
        return Scores(
            np.concatenate([fold.members for fold in folds]),
            np.concatenate([fold.nonmembers for fold in folds]),
        )

    def of_oracles(self, scorer: Scorer, surface: str, oracles: Sequence[Answers]) -> list[Scores]:
        """Of each oracle, the others being its references."""
        return [
            self.of(scorer, surface, oracle, others)
            for oracle, others in zip(oracles, _without_each(oracles), strict=True)
        ]


def _without_each(oracles: Sequence[Answers]) -> list[list[Answers]]:
    return [[other for other in oracles if other is not oracle] for oracle in oracles]


def usable(scorer: Scorer, oracles: int) -> bool:
    """Whether so many oracles are enough for one to be left out."""
    return oracles >= 2 or not scorer.needs_references


def references_for(name: str, models: Mapping[str, Answers]) -> list[Answers]:
    """The oracles among the models, without the one that is looked at."""
    return [model for other, model in models.items() if other != name and _is_oracle(other)]


def _is_oracle(name: str) -> bool:
    return name.startswith("oracle ")
