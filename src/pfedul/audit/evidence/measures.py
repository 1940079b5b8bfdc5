"""Figures and curves next to the tests: shown in every audit, not judged by comparison.

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
from pfedul.audit.ask.samples import AuditSamples
from pfedul.audit.ask.surfaces import Surface
from pfedul.audit.attacks import ATTACKS
from pfedul.audit.attacks.arrays import Array
from pfedul.audit.attacks.base import Attack, Estimate, Pair, View, averaged
from pfedul.audit.attacks.intervals import DRAWS
from pfedul.audit.attacks.roc import roc, tpr_at_fpr
from pfedul.audit.attacks.signals import margin
from pfedul.audit.attacks.threshold import losses
from pfedul.audit.judge.scores import ScoreBook

Row = dict[str, Any]

CURVE_POINTS = 120
BINS = 24


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
    scores = book.of_named(attack, surface, name, models)
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
    return np.concatenate([margin(answers[name], samples.labels_of(own[name])) for name in answers])


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


# What pictures are drawn from


def curves(
    book: ScoreBook, surfaces: Iterable[Surface], models: Mapping[str, Answers], oracles: int
) -> list[Row]:
    """ROC of the strong attacks; of the first one, the loss, where oracles are too few for them."""
    usable = [attack for attack in ATTACKS if attack.usable(oracles)]
    drawn = [attack for attack in usable if attack.roc] or usable[:1]
    return [
        _curve(book, attack, surface.name, name, models)
        for surface in surfaces
        if not surface.worst
        for attack in drawn
        for name in models
    ]


def _curve(
    book: ScoreBook, attack: Attack, surface: str, name: str, models: Mapping[str, Answers]
) -> Row:
    scores = book.of_named(attack, surface, name, models)
    fpr, tpr = roc(scores.members[0].mean(axis=0), scores.nonmembers[0].mean(axis=0))
    return {"surface": surface, "attack": attack.name, "model": name, **_thinned(fpr, tpr)}


def _thinned(fpr: Array, tpr: Array) -> Row:
    """Few enough points for a page, evenly on a logarithmic axis; both ends stay."""
    if len(fpr) > CURVE_POINTS:
        wanted = np.geomspace(1 / len(fpr), 1, CURVE_POINTS)
        places = np.unique(np.searchsorted(fpr, wanted, side="right") - 1)
        places = np.union1d(places, [0, len(fpr) - 1])
        fpr, tpr = fpr[places], tpr[places]
    return {"fpr": np.round(fpr, 6).tolist(), "tpr": np.round(tpr, 6).tolist()}


def distributions(surfaces: Iterable[Surface], models: Mapping[str, Answers]) -> list[Row]:
    """Shares of members and non-members by loss, in bins that are even on a logarithmic axis."""
    rows = []
    for surface in (s.name for s in surfaces if not s.worst):
        by_model = {name: _mean_losses(model.views[surface]) for name, model in models.items()}
        every = np.concatenate([part for pair in by_model.values() for part in pair])
        edges = np.geomspace(max(1e-4, every.min()), max(1e-3, every.max()), BINS + 1)
        for name, (inside, outside) in by_model.items():
            place = {"surface": surface, "signal": "loss", "model": name}
            shares = {"members": _shares(inside, edges), "nonmembers": _shares(outside, edges)}
            rows.append({**place, "edges": edges.tolist(), **shares})
    return rows


def _mean_losses(views: Sequence[View]) -> Pair:
    inside, outside = zip(*map(losses, views), strict=True)
    return np.mean(inside, axis=0), np.mean(outside, axis=0)


def _shares(values: Array, edges: Array) -> list[float]:
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), bins=edges)
    return [float(count) / len(values) for count in counts]
