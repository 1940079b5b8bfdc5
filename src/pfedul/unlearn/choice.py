"""Which layers are corrected, and how strongly: Eq. 7 and 8, and the ablations of Section 4.

A layer's weight is the score that its correction is given: I_l, unless an
ablation replaces it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from pfedul.base.randomness import numpy_generator
from pfedul.unlearn.pfedul.scores import select, threshold
from pfedul.unlearn.plan_options import PlanOptions


@dataclass(frozen=True)
class Choice:
    """The chosen layers with their weights, by index; largest and mean score of all layers."""

    threshold: float
    weights: dict[int, float]
    largest: float
    mean: float
    notes: tuple[str, ...] = ()


def choose_layers(scores: Sequence[float], options: PlanOptions) -> Choice:
    """The layers that the options single out among these scores."""
    tau, mean = threshold(scores, options.alpha), fmean(scores)
    if options.scores == "uniform":
        note = f"scores are not used: every layer is corrected with their mean, {mean:.4g}"
        return Choice(tau, dict.fromkeys(range(len(scores)), mean), mean, mean, (note,))
    chosen = _chosen(scores, tau, options)
    weights, notes = _weights(scores, chosen, options)
    return Choice(tau, weights, max(scores), mean, notes)


def _chosen(scores: Sequence[float], tau: float, options: PlanOptions) -> list[int]:
    everything = range(len(scores))
    if options.layers == "all":
        return list(everything)
    # As many as the layers above the threshold in every case, so that ablations compare.
    count = min(len(scores), max(options.at_least, sum(select(scores, tau))))
    if options.layers == "random":
        draw = numpy_generator(options.seed, "layers").permutation(len(scores))
        return [int(index) for index in draw[:count]]
    sign = 1 if options.layers == "low" else -1
    return sorted(everything, key=lambda index: sign * scores[index])[:count]


def _weights(
    scores: Sequence[float], chosen: list[int], options: PlanOptions
) -> tuple[dict[int, float], tuple[str, ...]]:
    if not chosen:
        return {}, ("no layer stands out: nothing is corrected",)
    if options.intensity == "adaptive":
        return {index: scores[index] for index in chosen}, ()
    mean = fmean(scores[index] for index in chosen)
    note = f"every chosen layer is corrected with the mean of their scores, {mean:.4g}"
    return dict.fromkeys(chosen, mean), (note,)
