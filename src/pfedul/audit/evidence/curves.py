"""What figures are drawn from: ROC curves, and distributions of the loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pfedul.audit.ask.answers import Answers
from pfedul.audit.ask.samples import Exam
from pfedul.audit.ask.surfaces import Surface
from pfedul.audit.attacks import roc
from pfedul.audit.attacks.arrays import Array
from pfedul.audit.attacks.signals import loss
from pfedul.audit.judge.scores import RMIA, THRESHOLD, ScoreBook, references_for, usable

Row = dict[str, Any]

CURVE_POINTS = 120
BINS = 24


def curves(
    book: ScoreBook, surfaces: Iterable[Surface], models: Mapping[str, Answers], oracles: int
) -> list[Row]:
    """ROC of the strongest single-sample attack: RMIA, or the loss where oracles are too few."""
    scorer = RMIA if usable(RMIA, oracles) else THRESHOLD
    rows = []
    for surface in (s.name for s in surfaces if not s.worst):
        for name, model in models.items():
            scores = book.of(scorer, surface, model, references_for(name, models))
            fpr, tpr = roc(scores.members[0].mean(axis=0), scores.nonmembers[0].mean(axis=0))
            place = {"surface": surface, "attack": scorer.name, "model": name}
            rows.append({**place, **_thinned(fpr, tpr)})
    return rows


def _thinned(fpr: Array, tpr: Array) -> Row:
    """Few enough points for a page, evenly on a logarithmic axis; both ends stay."""
    if len(fpr) > CURVE_POINTS:
        wanted = np.geomspace(1 / len(fpr), 1, CURVE_POINTS)
        places = np.unique(np.searchsorted(fpr, wanted, side="right") - 1)
        places = np.union1d(places, [0, len(fpr) - 1])
        fpr, tpr = fpr[places], tpr[places]
    return {"fpr": np.round(fpr, 6).tolist(), "tpr": np.round(tpr, 6).tolist()}


def distributions(
    exam: Exam, surfaces: Iterable[Surface], models: Mapping[str, Answers]
) -> list[Row]:
    """Shares of members and non-members by loss, in bins that are even on a logarithmic axis."""
    rows = []
    for surface in (s.name for s in surfaces if not s.worst):
        losses = {name: _mean_losses(exam, model, surface) for name, model in models.items()}
        every = np.concatenate([part for pair in losses.values() for part in pair])
        edges = np.geomspace(max(1e-4, every.min()), max(1e-3, every.max()), BINS + 1)
        for name, (inside, outside) in losses.items():
            place = {"surface": surface, "signal": "loss", "model": name}
            shares = {"members": _shares(inside, edges), "nonmembers": _shares(outside, edges)}
            rows.append({**place, "edges": edges.tolist(), **shares})
    return rows


def _mean_losses(exam: Exam, model: Answers, surface: str) -> tuple[Array, Array]:
    views = model.views[surface]
    return (
        np.mean([loss(view.members, exam.member_labels) for view in views], axis=0),
        np.mean([loss(view.nonmembers, exam.nonmember_labels) for view in views], axis=0),
    )


def _shares(values: Array, edges: Array) -> list[float]:
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), bins=edges)
    return [float(count) / len(values) for count in counts]
