"""The printed direction and bound with a step that uses the bound: after Eq. 9 to 11.

Ours: the step of a layer is scaled so that its root mean square is
(I_l / largest I) * delta_l before the clip, whatever the scale of the
gradients, where the printed step is far below the bound. `toward="init"` turns
the direction round, back to the initial weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pfedul.base.tensors import Tensors, pieces, square_sum
from pfedul.unlearn.pfedul.corrections import one_pass
from pfedul.unlearn.pfedul.corrections.base import Corrected, Correction, LayerView
from pfedul.unlearn.pfedul.corrections.bounded import (
    add_clipped,
    bound_of,
    directed,
    empty_steps,
    require_clip,
    scale_and_limit,
)


@dataclass(frozen=True)
class TrustRegionOptions:
    """`clip`: gamma of Eq. 11; `toward`: away (from the initial weights, as printed) or init."""

    clip: float = 0.01
    toward: str = "away"

    def __post_init__(self) -> None:
        require_clip(self.clip)
        if self.toward not in {"away", "init"}:
            raise ValueError(f"toward must be away or init, not '{self.toward}'")


def correct(view: LayerView, options: TrustRegionOptions) -> Corrected:
    """A step of a given size along the direction of Eq. 10, clipped entry by entry."""
    if one_pass.fits(view) and _holds(size := one_pass.direction_norm(view)):
        return one_pass.add_clipped(view, *_scale_and_limit(view, size, options))
    steps = empty_steps(view)
    size = _direct(view, steps)
    walks = {name: pieces(step, view.shared[name]) for name, step in steps.items()}
    return add_clipped(view, steps, walks, *_scale_and_limit(view, size, options))


def _scale_and_limit(
    view: LayerView, size: float, options: TrustRegionOptions
) -> tuple[float, float]:
    """For a direction of this size: what makes its root mean square that share of the bound."""
    bound = bound_of(view, options.clip)
    wanted = bound * view.score / view.largest if view.largest else 0.0
    scale = wanted * math.sqrt(max(1, view.entries)) / size if size else 0.0
    return scale_and_limit(scale if options.toward == "away" else -scale, bound)


def _direct(view: LayerView, steps: Tensors) -> float:
    """Fill the steps with the direction, whose norm is returned.

    Where float32 might not hold it with all its digits, it is that of a Fisher
    with 1 as the largest entry.
    """
    size = _fill(view, steps)
    peak = 1.0 if _holds(size) else _peak(view.target)
    return size if peak == 1.0 else _fill(view, steps, peak)


def _holds(size: float) -> bool:
    """Whether single precision holds a direction of this size with all its digits."""
    return 1e-12 < size < 1e12


def _fill(view: LayerView, steps: Tensors, peak: float = 1.0) -> float:
    walks = (directed(view, steps, name, peak) for name in steps)
    return math.sqrt(sum(square_sum(step) for walk in walks for step, _ in walk))


def _peak(fisher: Tensors) -> float:
    """The largest entry; 1 if that is zero, or if there is none."""
    return (
        max((float(tensor.max()) for tensor in fisher.values() if tensor.numel()), default=0) or 1.0
    )


TRUST_REGION = Correction(
    name="trust-region",
    summary="the printed direction and bound, with a step that uses the bound",
    options=TrustRegionOptions,
    correct=correct,
)
