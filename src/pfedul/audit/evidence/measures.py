"""Figures next to the tests: shown in every audit, not judged by comparison.

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
from pfedul.audit.ask.samples import AuditSamples, labels_of
from pfedul.audit.ask.surfaces import Surface
from pfedul.audit.attacks import ATTACKS
from pfedul.audit.attacks.arrays import Array
from pfedul.audit.attacks.base import Attack, Estimate, averaged
from pfedul.audit.attacks.intervals import DRAWS
from pfedul.audit.attacks.roc import tpr_at_fpr
from pfedul.audit.attacks.signals import margin
from pfedul.audit.judge.scores import ScoreBook, references_for

Row = dict[str, Any]


def _row(surface: str, attack: str, model: str, figure: Estimate, **also: str) -> Row:
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
    shown = [attack for attack in ATTACKS if attack.figure or attack.usable(oracles)]
    return [
        _row(surface.name, attack.name, name, _figure(book, attack, surface.name, name, models))
        for surface in surfaces
        if not surface.worst
        for name in models
        for attack in shown
    ]


def _figure(
    book: ScoreBook, attack: Attack, surface: str, name: str, models: Mapping[str, Answers]
) -> Estimate:
    if attack.figure is not None:
        return averaged([attack.figure(view, DRAWS) for view in models[name].views[surface]])
    scores = book.of(attack, surface, models[name], references_for(name, models))
    return averaged(list(map(tpr_at_fpr, scores.members[0], scores.nonmembers[0])))


# Of many models of both kinds


def population_measures(
    samples: AuditSamples,
    surfaces: Iterable[Surface],
    unlearned: Sequence[Answers],
    oracles: Sequence[Answers],
) -> list[Row]:
    """U-LiRA, KLoM and the forgetting score, as far as there are enough models for them."""
    rows = []
    for surface in surfaces:
        if not surface.worst:
            margins = _both(unlearned, oracles, partial(member_margins, surface.name))
            rows += _population_rows(surface.name, "forget", margins)
    for kind in ("retain", "test"):
        margins = _both(unlearned, oracles, partial(own_margins, samples, kind))
        rows += _population_rows("remaining", kind, margins)
    return rows


Both = tuple[Array, Array]
"""Margins [models, samples] of unlearned models and of oracles."""


def _both(
    unlearned: Sequence[Answers], oracles: Sequence[Answers], margins: Callable[[Answers], Array]
) -> Both:
    return np.stack(list(map(margins, unlearned))), np.stack(list(map(margins, oracles)))


def member_margins(surface: str, model: Answers) -> Array:
    """Margin of each member, averaged over the surface's views."""
    views = model.views[surface]
    mean: Array = np.mean([margin(view.members, view.labels.members) for view in views], axis=0)
    return mean


def own_margins(samples: AuditSamples, kind: str, model: Answers) -> Array:
    """Margins of the remaining clients' own samples under their own models."""
    own, answers = {
        "retain": (samples.own_train, model.own_train),
        "test": (samples.own_test, model.own_test),
    }[kind]
    return np.concatenate([margin(answers[name], labels_of(own[name])) for name in answers])


def _population_rows(surface: str, kind: str, margins: Both) -> list[Row]:
    attacks = [a for a in ATTACKS if a.population and (kind == "forget" or a.everywhere)]
    return [row for attack in attacks for row in _compared(attack, surface, kind, margins)]


def _compared(attack: Attack, surface: str, kind: str, margins: Both) -> Iterable[Row]:
    """If `everywhere`, also what half of the oracles has from the rest: the floor for so few."""
    assert attack.population is not None
    also, pairs = {}, {"candidate": margins}
    if attack.everywhere:
        half = len(margins[1]) // 2
        also["samples"] = kind
        pairs["one half of the oracles"] = margins[1][:half], margins[1][half:]
    for model, both in pairs.items():
        if min(map(len, both)) >= attack.fewest:
            figure = attack.population(*both, DRAWS)
            yield _row(surface, attack.name, model, figure, **also)
