"""Figures beside the tests: shown in every audit, not judged by comparison.

Balanced accuracy of the fitted attacks and RMIA's power at few false alarms for every
model; where there are enough models of both kinds, U-LiRA, KLoM and the forgetting
score. A surface with several views (the remaining clients' models) has the mean of its
views, and the mean of the ends of their intervals: as if their errors agreed fully.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from pfedul.audit.ask.answers import Answers
from pfedul.audit.ask.samples import Exam, View, labels
from pfedul.audit.ask.surfaces import Surface
from pfedul.audit.attacks import (
    bins_for,
    forgetting_attack,
    klom_attack,
    logistic_attack,
    threshold_attack,
    tpr_at_fpr,
    ulira_attack,
)
from pfedul.audit.attacks.arrays import Array
from pfedul.audit.attacks.base import Figure, Figures, averaged
from pfedul.audit.attacks.forgetting_quality import FEWEST_MODELS as FEWEST_FOR_QUALITY
from pfedul.audit.attacks.klom import FEWEST_MODELS as FEWEST_FOR_KLOM
from pfedul.audit.attacks.roc import BALANCED_ACCURACY, TPR_AT_1_PERCENT
from pfedul.audit.attacks.signals import loss, margin
from pfedul.audit.attacks.ulira import FEWEST_MODELS as FEWEST_FOR_ULIRA
from pfedul.audit.judge.scores import RMIA, ScoreBook, references_for, usable

Row = dict[str, Any]

DRAWS = 300
"""Of bootstraps: there are many figures here, and their ends need no third digit."""


def _row(surface: str, attack: str, model: str, figure: Figure, **also: str) -> Row:
    metric = figure.metric
    ends = [end if np.isfinite(end) else None for end in (metric.low, metric.high)]
    return {
        "surface": surface,
        "attack": attack,
        "metric": metric.name,
        "model": model,
        **figure.as_json(),
        "best": metric.best,
        "low": ends[0],
        "high": ends[1],
        "higher_is_better": metric.higher_is_better,
        **also,
    }


# Of single models


def model_measures(
    book: ScoreBook, surfaces: Iterable[Surface], models: Mapping[str, Answers], oracles: int
) -> list[Row]:
    """Balanced accuracies and the power at 1 % false alarms, of each model on each surface."""
    rows = []
    shown = [surface.name for surface in surfaces if not surface.worst]
    for surface in shown:
        for name, model in models.items():
            for attack, run in _FITTED.items():
                found = [run(book.exam, view) for view in model.views[surface]]
                figure = averaged([figures[BALANCED_ACCURACY.name] for figures in found])
                rows.append(_row(surface, attack, name, figure))
            if usable(RMIA, oracles):
                rows.append(_row(surface, RMIA.name, name, _power(book, surface, name, models)))
    return rows


def _fitted_threshold(exam: Exam, view: View) -> Figures:
    inside = loss(view.members, exam.member_labels)
    outside = loss(view.nonmembers, exam.nonmember_labels)
    return threshold_attack(inside, outside, draws=DRAWS)


def _fitted_logistic(exam: Exam, view: View) -> Figures:
    inside, outside = exam.member_labels, exam.nonmember_labels
    return logistic_attack(view.members, inside, view.nonmembers, outside, draws=DRAWS)


_FITTED: dict[str, Callable[[Exam, View], Figures]] = {
    "threshold": _fitted_threshold,
    "logistic": _fitted_logistic,
}


def _power(book: ScoreBook, surface: str, name: str, models: Mapping[str, Answers]) -> Figure:
    scores = book.of(RMIA, surface, models[name], references_for(name, models))
    found = [
        tpr_at_fpr(inside, outside)
        for inside, outside in zip(scores.members[0], scores.nonmembers[0], strict=True)
    ]
    return averaged([Figure(TPR_AT_1_PERCENT, one.tpr, one.tpr_interval) for one in found])


# Of many models of both kinds


def population_measures(
    exam: Exam,
    surfaces: Iterable[Surface],
    unlearned: Sequence[Answers],
    oracles: Sequence[Answers],
) -> list[Row]:
    """U-LiRA, KLoM and the forgetting score, as far as there are enough models for them."""
    rows = []
    for surface in surfaces:
        if surface.worst:
            continue
        forget = _both(unlearned, oracles, partial(member_margins, exam, surface.name))
        rows += _many_model_rows(surface.name, forget)
    for kind in ("retain", "test"):
        margins = _both(unlearned, oracles, partial(own_margins, exam, kind))
        rows += _klom_rows("remaining", kind, margins)
    return rows


Both = tuple[Array, Array]
"""Margins [models, samples] of unlearned models and of oracles."""


def _both(
    unlearned: Sequence[Answers], oracles: Sequence[Answers], margins: Callable[[Answers], Array]
) -> Both:
    return (
        np.stack([margins(model) for model in unlearned]),
        np.stack([margins(model) for model in oracles]),
    )


def member_margins(exam: Exam, surface: str, model: Answers) -> Array:
    """Margin of each member, averaged over the surface's views."""
    views = model.views[surface]
    found: Array = np.mean([margin(view.members, exam.member_labels) for view in views], axis=0)
    return found


def own_margins(exam: Exam, kind: str, model: Answers) -> Array:
    """Margins of the remaining clients' own samples under their own models."""
    samples, answers = {
        "retain": (exam.own_train, model.own_train),
        "test": (exam.own_test, model.own_test),
    }[kind]
    return np.concatenate([margin(answers[name], labels(samples[name])) for name in answers])


def _many_model_rows(surface: str, margins: Both) -> list[Row]:
    rows = _klom_rows(surface, "forget", margins)
    few = min(map(len, margins))
    if few >= FEWEST_FOR_QUALITY:
        rows += _rows_of(surface, "forgetting-quality", forgetting_attack(*margins, draws=DRAWS))
    if few >= FEWEST_FOR_ULIRA:
        rows += _rows_of(surface, "ulira", ulira_attack(*margins))
    return rows


def _klom_rows(surface: str, kind: str, margins: Both) -> list[Row]:
    """KLoM, beside what one half of the oracles has from the other: the floor for so few models."""
    unlearned, oracles = margins
    rows = []
    if min(map(len, margins)) >= FEWEST_FOR_KLOM:
        found = klom_attack(unlearned, oracles, bins=bins_for(len(oracles)), draws=DRAWS)
        rows += _rows_of(surface, "klom", found, samples=kind)
    half = len(oracles) // 2
    if half >= FEWEST_FOR_KLOM:
        found = klom_attack(oracles[:half], oracles[half:], bins=bins_for(half), draws=DRAWS)
        rows += _rows_of(surface, "klom", found, "one half of the oracles", samples=kind)
    return rows


def _rows_of(
    surface: str, attack: str, figures: Figures, model: str = "candidate", **also: str
) -> list[Row]:
    return [_row(surface, attack, model, figure, **also) for figure in figures.values()]
