"""The printed direction and bound with a step that uses the bound: after Eq. 9 to 11.

Ours: the step of a layer is scaled so that its root mean square is
(I_l / largest I) * delta_l before the clip, whatever the scale of the
gradients, where the printed step is far below the bound. `toward="init"` turns
the direction round, back to the initial weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pfedul.tensors import Tensors, pieces, square_sum
from pfedul.unlearn.corrections.bounded import (
    add_clipped,
    bound_of,
    directed,
    empty_steps,
    require_clip,
)
from pfedul.unlearn.corrections.kind import Corrected, Correction, LayerView


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
    bound, steps = bound_of(view, options.clip), empty_steps(view)
    size = _direct(view, steps) / math.sqrt(max(1, view.entries))
    wanted = bound * view.score / view.largest if view.largest else 0.0
    scale = wanted / size if size else 0.0
    walks = {name: pieces(step, view.shared[name]) for name, step in steps.items()}
    return add_clipped(view, steps, walks, scale if options.toward == "away" else -scale, bound)


def _direct(view: LayerView, steps: Tensors) -> float:
    """Fill the steps with the direction, whose norm is returned.

    Where float32 might not hold it with all its digits, it is that of a Fisher
    with 1 as the largest entry.
    """
    size = _fill(view, steps)
    peak = 1.0 if _SMALL < size < _LARGE else _peak(view.target)
    return size if peak == 1.0 else _fill(view, steps, peak)


_SMALL, _LARGE = 1e-12, 1e12


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
