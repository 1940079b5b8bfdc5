"""How much of each layer is the target's, and which layers are chosen: Eq. 6 to 8.

I_l is the target's share of the L1 norm of the Fisher of all clients present, over the tensors of
a layer together. A layer's weight is the score that its correction is given: I_l, unless an
ablation (Section 4) replaces it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

import numpy as np

from pfedul.base.randomness import numpy_generator
from pfedul.base.tensors import Tensors, flat_array
from pfedul.split import Layer
from pfedul.unlearn.pfedul.result import PlanOptions

ROUNDING = 1e-6
"""Relative difference below which two scores are equal: a Fisher is stored as float32."""


def layer_scores(target: Tensors, total: Tensors, layers: Sequence[Layer]) -> list[float]:
    """I_l of each layer; 0 where the Fisher of all clients is 0.

    >>> from torch import tensor
    >>> layer = Layer("a", ("w",), 2)
    >>> layer_scores({"w": tensor([1.0, 0.0])}, {"w": tensor([2.0, 2.0])}, [layer])
    [0.25]
    """
    pairs = [(_l1_norm(target, layer), _l1_norm(total, layer)) for layer in layers]
    return [own / everyone if everyone else 0.0 for own, everyone in pairs]


def _l1_norm(fisher: Tensors, layer: Layer) -> float:
    """A plain sum in double precision: no entry of a Fisher is below zero."""
    parts = (flat_array(fisher[name]) for name in layer.tensors)
    return math.fsum(float(part.sum(dtype=np.float64)) for part in parts)


def threshold(scores: Sequence[float], alpha: float) -> float:
    """tau = mean + alpha * population standard deviation.

    >>> threshold([0.0, 1.0], alpha=0.5)
    0.75
    """
    return fmean(scores) + alpha * pstdev(scores)


def select(scores: Sequence[float], tau: float) -> list[bool]:
    """Which scores are above the threshold by more than rounding.

    Without this margin the last bit of the mean would decide about equal scores.

    >>> select([0.1, 0.1, 0.4], tau=0.2)
    [False, False, True]
    """
    return [score - tau > ROUNDING * max(score, tau) for score in scores]


@dataclass(frozen=True)
class Choice:
    """The chosen layers with their weights, by index; largest and mean score of all layers."""

    threshold: float
    weights: dict[int, float]
    largest: float
    mean: float
    notes: tuple[str, ...] = ()


def choose_layers(scores: Sequence[float], options: PlanOptions) -> Choice:
    """The layers to correct, given the scores of all layers."""
    tau, mean = threshold(scores, options.alpha), fmean(scores)
    if options.scores == "uniform":
        note = f"scores are not used: every layer is corrected with their mean, {mean:.4g}"
        return Choice(tau, dict.fromkeys(range(len(scores)), mean), mean, mean, (note,))
    chosen = _chosen(scores, tau, options)
    weights, notes = _weights(scores, chosen, options)
    return Choice(tau, weights, max(scores), mean, notes)


def _chosen(scores: Sequence[float], tau: float, options: PlanOptions) -> list[int]:
    everything = range(len(scores))
    if options.which_layers == "all":
        return list(everything)
    # As many as are above the threshold in every case, so ablations can be compared.
    count = min(len(scores), max(options.at_least, sum(select(scores, tau))))
    if options.which_layers == "random":
        draw = numpy_generator(options.seed, "layers").permutation(len(scores))
        return [int(index) for index in draw[:count]]
    sign = 1 if options.which_layers == "low" else -1
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
