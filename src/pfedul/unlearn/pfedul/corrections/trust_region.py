"""The printed direction and bound with a step that uses the bound: after Eq. 9 to 11.

Ours: the step of a layer is scaled so that its root mean square is
(I_l / largest I) * delta_l before the clip, whatever the scale of the
gradients, where the printed step is far below the bound. `toward="init"` turns
the direction round, back to the initial weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pfedul.base.tensors import square_sum
from pfedul.unlearn.pfedul.corrections.base import Corrected, Correction, LayerView
from pfedul.unlearn.pfedul.corrections.bounded import (
    add_clipped,
    bound_of,
    direction,
    require_clip,
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
    bound = bound_of(view, options.clip)
    size = math.sqrt(sum(square_sum(direction(view, name)) for name in view.shared))
    wanted = bound * view.score / view.largest if view.largest else 0.0
    scale = wanted * math.sqrt(view.entries) / size if size else 0.0
    return add_clipped(view, scale if options.toward == "away" else -scale, bound)


TRUST_REGION = Correction(
    name="trust-region",
    summary="the printed direction and bound, with a step that uses the bound",
    options=TrustRegionOptions,
    correct=correct,
)
