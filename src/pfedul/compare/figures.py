"""Figures that a comparison reads off the answers of models: MIA accuracy, and how sure PPS and
CFI are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfedul.audit.ask.answers import Answers
from pfedul.audit.ask.samples import AuditSamples
from pfedul.audit.ask.surfaces import Surface, Views
from pfedul.audit.attacks.intervals import Interval
from pfedul.audit.attacks.roc import auc
from pfedul.audit.attacks.signals import correctness
from pfedul.audit.attacks.threshold import cross_fitted_accuracy, losses
from pfedul.base.randomness import numpy_generator
from pfedul.evaluation import Accuracies, cfi_of_ratios, pps_of_ratios, preservation

Figures = dict[str, Any]
Table = NDArray[np.float64]

LIKELY_SURFACES = ("stale", "shared", "remaining")
"""Where papers most likely measured MIA accuracy: the first of these that there is.

A figure of 78 % before and 50 % after retraining is seen through the target's own head alone.
"""

RATIOS = ("lowest_ratio", "lower_quartile", "median_ratio", "upper_quartile", "highest_ratio")
"""Of accuracy after to accuracy before, over the remaining clients."""

DRAWS = 1000


# MIA accuracy


def mia_figures(surfaces: Sequence[Surface], answers: Answers) -> Figures:
    """MIA accuracy and AUC of the loss by surface; `mia_accuracy` is that of the likely one."""
    shown = [surface.name for surface in surfaces if not surface.worst]
    by_surface = {name: _mia(answers.views[name]) for name in shown}
    likely = next((name for name in LIKELY_SURFACES if name in by_surface), None)
    accuracy = None if likely is None else by_surface[likely]["accuracy"]
    return {"mia": by_surface, "mia_surface": likely, "mia_accuracy": accuracy}


def _mia(views: Views) -> dict[str, float]:
    """The mean over the views of a surface; the threshold is never fitted on what it is tried on.

    An AUC is of scores that grow with suspicion, so of losses turned round.
    """
    pairs = [losses(view) for view in views]
    return {
        "accuracy": fmean(cross_fitted_accuracy(*pair) for pair in pairs),
        "auc": fmean(auc(-inside, -outside) for inside, outside in pairs),
    }


# PPS, CFI and their intervals


def preserved(before: Accuracies, after: Accuracies) -> Figures:
    """Accuracy of the remaining clients, and what each kept of it."""
    both = [client for client in before if client in after]
    kept = preservation({c: before[c] for c in both}, {c: after[c] for c in both})
    ratios = list(kept.ratios.values())
    places = np.quantile(ratios, (0, 0.25, 0.5, 0.75, 1)).tolist() if ratios else [None] * 5
    return {
        "remaining_accuracy": fmean(after[client] for client in both),
        "pps": kept.pps if ratios else None,
        "cfi": kept.cfi if ratios else None,
        **dict(zip(RATIOS, places, strict=True)),
        "client_ratios": dict(kept.ratios),
    }


def preservation_intervals(
    samples: AuditSamples, before: Answers | None, after: Answers, kept: Figures
) -> dict[str, Interval | None]:
    """Intervals that count the clients and their test samples: both are drawn with replacement.

    A sample keeps both its answers in a draw: the same samples were asked before and after.
    Without the answers before there is no interval, nor for a task whose samples may be right in
    part.
    """
    hits = {} if before is None else _hits(samples, before, after)
    if kept["pps"] is None or not hits:
        return {"pps_interval": None, "cfi_interval": None}
    ratios = np.array([one[1].mean() / one[0].mean() for one in hits.values()])
    draws = _drawn_ratios([_outcomes(one) for one in hits.values()])
    low, high = _around(kept["cfi"], cfi_of_ratios(draws) - cfi_of_ratios(ratios))
    return {
        "pps_interval": _around(kept["pps"], pps_of_ratios(draws) - pps_of_ratios(ratios)),
        "cfi_interval": (low, min(1.0, high)),
    }


def _hits(samples: AuditSamples, before: Answers, after: Answers) -> Mapping[str, Table]:
    """Client -> right or wrong, [before and after, samples]; without clients that had 0 right."""
    if not samples.task.classes:
        return {}
    found = {}
    for client in after.own_test.keys() & before.own_test.keys():
        labels = samples.labels_of(samples.own_test[client])
        answers = (before.own_test[client], after.own_test[client])
        hits = np.stack([correctness(logits, labels) for logits in answers])
        if hits[0].any():
            found[client] = hits
    return dict(sorted(found.items()))


def _outcomes(hits: Table) -> list[int]:
    """How many samples were right both times, only before, only after, and never."""
    before, after = hits.astype(bool)
    kinds = (before & after, before & ~after, ~before & after, ~before & ~after)
    return [int(kind.sum()) for kind in kinds]


def _drawn_ratios(outcomes: Sequence[Sequence[int]]) -> Table:
    """[draws, clients]: first clients are drawn, then samples of each.

    A draw in which nothing was right before counts as one sample that was.
    """
    counts, stream = np.array(outcomes), numpy_generator(0, "preservation intervals")
    chosen = counts[stream.integers(len(counts), size=(DRAWS, len(counts)))]
    samples = chosen.sum(axis=-1)
    drawn = stream.multinomial(samples, chosen / samples[..., None])
    both, lost, won = (drawn[..., kind] for kind in range(3))
    ratios: Table = (both + won) / np.maximum(1, both + lost)
    return ratios


def _around(value: float, deviations: Table) -> Interval:
    """The basic bootstrap interval: it takes back what drawing adds to a spread."""
    low, high = np.quantile(deviations, [0.025, 0.975])
    return float(value - high), float(value - low)
