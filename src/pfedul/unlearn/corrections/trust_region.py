"""The printed direction and bound with a step that uses the bound: after Eq. 9 to 11.

Ours: the step of a layer is scaled so that its root mean square is
(I_l / largest I) * delta_l before the clip, whatever the scale of the
gradients, where the printed step is far below the bound. `toward="init"` turns
the direction round, back to the initial weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from pfedul.tensors import Tensors
from pfedul.unlearn.corrections.bounded import (
    add_clipped,
    direction,
    require_clip,
    root_mean_square,
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
    bound = options.clip * root_mean_square(view.shared)
    steps = direction(_largest_one(view.target), view.shared, view.initial)
    size = root_mean_square(steps)
    wanted = bound * view.score / view.largest if view.largest else 0.0
    scale = wanted / size if size else 0.0
    for tensor in steps.values():
        tensor.mul_(scale if options.toward == "away" else -scale)
    return add_clipped(view.shared, steps, bound)


def _largest_one(fisher: Tensors) -> Tensors:
    """The Fisher with 1 as its largest entry: tiny ones would leave the range of float32."""
    peak = max(float(tensor.max()) for tensor in fisher.values() if tensor.numel())
    return {name: tensor / peak for name, tensor in fisher.items()} if peak else fisher


TRUST_REGION = Correction(
    name="trust-region",
    summary="the printed direction and bound, with a step that uses the bound",
    options=TrustRegionOptions,
    correct=correct,
)
