"""KLoM: how far the margins of unlearned models are from those of oracles, sample by sample.

K. Georgiev, R. Rinberg, S. M. Park, S. Garg, A. Ilyas, A. Madry, S. Neel,
"Attribute-to-Delete", ICLR 2025 (arXiv 2410.23232): for each sample the
Kullback-Leibler divergence, unlearned from oracle, of binned margins over models;
reported is the 95th percentile over a set of samples. Unlike U-LiRA it cannot be
fooled by margins that are all the same. As in the authors' code: 20 bins over the
common range, margins clipped to +-100, an oracle's bin that is empty where an
unlearned one is not counts 1e-5, then all are brought to the sum 1. What differs: the
authors' bins leave out the largest value, here the last bin has it; the two numbers
of models may differ; the number of bins is a choice, for 20 bins want 100 models.

With few models the divergence is well above 0 even between oracles: read it next to
`klom(some oracles, the other oracles)`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from pfedul.audit.attacks.arrays import Array, Whole, two_model_sets
from pfedul.audit.attacks.base import Attack, Estimate, Metric
from pfedul.audit.attacks.intervals import stratified_bootstrap
from pfedul.errors import PfedulError

KLOM = Metric("KLoM", best=0.0, higher_is_better=False, high=math.log(1e5 + 1))
"""95th percentile over samples of the divergence of margins, unlearned from oracle."""
FEWEST_MODELS = 2
_LARGEST_MARGIN = 100.0
_EMPTY_BIN = 1e-5


def klom_attack(unlearned: Array, oracles: Array, draws: int = 2000, seed: int = 0) -> Estimate:
    """The 95th percentile of `klom`; its interval is over samples, with these very models."""
    bins = bins_for(min(len(unlearned), len(oracles)))
    values = np.sort(klom(unlearned, oracles, bins))
    interval = stratified_bootstrap([values], _percentile, seed, draws)
    return Estimate(KLOM, _percentile(values), interval)


def klom(unlearned: ArrayLike, oracles: ArrayLike, bins: int = 20) -> Array:
    """Divergence of each sample's margins, [models, samples] both."""
    left, right = two_model_sets("margins", unlearned, oracles, FEWEST_MODELS)
    if bins < 2:
        raise PfedulError(f"KLoM needs at least two bins, not {bins}.")
    left, right = (np.clip(part, -_LARGEST_MARGIN, _LARGEST_MARGIN) for part in (left, right))
    low = np.minimum(left.min(axis=0), right.min(axis=0))
    width = np.maximum(left.max(axis=0), right.max(axis=0)) - low
    width[width == 0] = 1  # all margins equal: one bin holds them
    ours, theirs = (_shares((part - low) / width, bins) for part in (left, right))
    theirs = np.where(ours > 0, np.maximum(theirs, _EMPTY_BIN), theirs)
    return _divergence(*(part / part.sum(axis=1, keepdims=True) for part in (ours, theirs)))


def bins_for(models: int) -> int:
    """Bins that so many models can fill: their square root, from 2 to the paper's 20."""
    return int(np.clip(round(models**0.5), 2, 20))


def _percentile(values: Array) -> float:
    return float(np.percentile(values, 95))


def _shares(places: Array, bins: int) -> Array:
    """[samples, bins]: share of the models in each bin; places run from 0 to 1."""
    index: Whole = np.minimum((places * bins).astype(np.int64), bins - 1)
    shares: Array = (index[:, :, None] == np.arange(bins)).mean(axis=0)
    return shares


def _divergence(ours: Array, theirs: Array) -> Array:
    present = ours > 0
    ratio = np.divide(ours, theirs, out=np.ones_like(ours), where=present)
    sums: Array = (ours * np.log(ratio)).sum(axis=1)
    # rounding can leave -1e-17 where the two are equal
    return np.maximum(sums, 0.0)


KLOM_ATTACK = Attack(
    name="klom",
    title="KLoM",
    summary="divergence of margins between unlearned models and oracles, worst samples",
    explanation=(
        "Sample by sample it measures how far the answers of many unlearned models are "
        "from those of many retrained ones, and shows the worst samples. 0 is no "
        "difference; it judges the method, not one model."
    ),
    paper="Georgiev et al., ICLR 2025, arXiv 2410.23232",
    population=klom_attack,
    fewest=FEWEST_MODELS,
    everywhere=True,
)
