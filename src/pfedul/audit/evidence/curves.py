"""What figures are drawn from: ROC curves, and distributions of the loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pfedul.audit.ask.answers import Answers
from pfedul.audit.ask.surfaces import Surface
from pfedul.audit.attacks import ATTACKS, Attack
from pfedul.audit.attacks.arrays import Array
from pfedul.audit.attacks.base import View
from pfedul.audit.attacks.roc import roc
from pfedul.audit.attacks.signals import loss
from pfedul.audit.judge.scores import ScoreBook, references_for

Row = dict[str, Any]

CURVE_POINTS = 120
BINS = 24


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
    scores = book.of(attack, surface, models[name], references_for(name, models))
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
        losses = {name: _mean_losses(model.views[surface]) for name, model in models.items()}
        every = np.concatenate([part for pair in losses.values() for part in pair])
        edges = np.geomspace(max(1e-4, every.min()), max(1e-3, every.max()), BINS + 1)
        for name, (inside, outside) in losses.items():
            place = {"surface": surface, "signal": "loss", "model": name}
            shares = {"members": _shares(inside, edges), "nonmembers": _shares(outside, edges)}
            rows.append({**place, "edges": edges.tolist(), **shares})
    return rows


def _mean_losses(views: Sequence[View]) -> tuple[Array, Array]:
    return (
        np.mean([loss(view.members, view.labels.members) for view in views], axis=0),
        np.mean([loss(view.nonmembers, view.labels.nonmembers) for view in views], axis=0),
    )


def _shares(values: Array, edges: Array) -> list[float]:
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), bins=edges)
    return [float(count) / len(values) for count in counts]
