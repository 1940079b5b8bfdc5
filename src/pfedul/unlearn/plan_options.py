"""The options that shape a plan: alpha of Eq. 8, the correction, and the paper's ablations."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pfedul.errors import PfedulError
from pfedul.unlearn.pfedul.corrections import CORRECTIONS


@dataclass(frozen=True)
class PlanOptions:
    """What to choose and how to correct it; the defaults are the paper's.

    `correction` is in the one-line form: `trust-region:clip=0.1,toward=init`.
    `at_least` layers are chosen, however few are above the threshold.
    `fisher_noise` blurs every client's Fisher before it is read.

    Ablations: `scores="uniform"` (without attribution: every layer, all with
    the mean score), `intensity="uniform"` (not adaptive: the chosen layers all
    with their mean score), and `layers`: as many as are high, but the "low" or
    "random" ones, or "all" layers with their own scores.
    """

    alpha: float = 0.5
    correction: str = "paper"
    scores: str = "fisher"
    intensity: str = "adaptive"
    layers: str = "high"
    at_least: int = 0
    fisher_noise: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        CORRECTIONS.parse(self.correction)
        for option, allowed in _ALLOWED.items():
            _require_choice(option, getattr(self, option), allowed)
        for option in ("alpha", "at_least", "fisher_noise"):
            _require_from_zero(option, getattr(self, option))
        if self.scores == "uniform" and self.layers in {"low", "random"}:
            raise PfedulError(
                f"scores='uniform' corrects every layer, so that layers='{self.layers}' has "
                "nothing to choose; leave out one of the two."
            )


_ALLOWED = {
    "scores": ("fisher", "uniform"),
    "intensity": ("adaptive", "uniform"),
    "layers": ("high", "low", "random", "all"),
}


def _require_choice(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise PfedulError(f"{option} must be one of {', '.join(allowed)}, not '{value}'.")


def _require_from_zero(option: str, value: float) -> None:
    if not 0 <= value < math.inf:
        raise PfedulError(f"{option} must be a number from 0 up, not {value}.")
