"""The printed direction and bound with a step that uses the bound: after Eq. 9 to 11.

Our own: a layer's step is scaled to a root mean square of (I_l / largest I) * delta_l
before the clip, whatever the scale of the gradients; the printed step is far below the
bound. `toward=init` reverses the direction, back to the initial weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pfedul.base.options import option
from pfedul.base.tensors import square_sum
from pfedul.unlearn.pfedul.corrections.base import (
    Corrected,
    Correction,
    LayerView,
    add_clipped,
    bound_of,
    direction,
)


@dataclass(frozen=True)
class TrustRegionOptions:
    """The bound of Eq. 11 and the sign of the direction."""

    clip: float = option(0.01, "bound relative to the layer, gamma of Eq. 11", above=0)
    toward: str = option(
        "away",
        "'away' from the initial weights, as printed, or back to them",
        choices=("away", "init"),
    )


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
