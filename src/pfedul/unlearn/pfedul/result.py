"""A plan and its options: scores, threshold, chosen layers and corrected tensors."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from pfedul.base.tensors import Tensors
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


@dataclass(frozen=True)
class LayerPlan:
    """What a plan says of one layer.

    `score` is I_l, also where an ablation corrects with another number.
    `relative_change` is ||change||_2 / ||theta_l||_2, of the change that is left
    after rounding (infinite for a layer that was all zero). `at_bound` is the
    share of entries at the bound of Eq. 11 or, where entries are reset, the
    share that is.
    """

    name: str
    tensors: tuple[str, ...]
    parameters: int
    score: float
    selected: bool
    relative_change: float = 0.0
    at_bound: float = 0.0


@dataclass(frozen=True, eq=False)
class Plan:
    """What forgetting these targets will do to the shared tensors.

    `corrected` has the tensors that change, as they will be.
    """

    targets: tuple[str, ...]
    threshold: float
    layers: tuple[LayerPlan, ...]
    corrected: Tensors
    options: PlanOptions
    notes: tuple[str, ...] = ()

    @property
    def selected(self) -> tuple[str, ...]:
        """The names of the chosen layers."""
        return tuple(layer.name for layer in self.layers if layer.selected)

    def apply(self, shared: Tensors) -> Tensors:
        """The corrected shared tensors; what the plan does not change is the same object.

        Give it the shared tensors that the plan was made for: after another
        round of training a new plan is needed.
        """
        for name, tensor in self.corrected.items():
            if name not in shared or shared[name].shape != tensor.shape:
                raise PfedulError(
                    f"The plan corrects the tensor '{name}' of shape {list(tensor.shape)}, which "
                    "these shared tensors do not have; apply it to those it was made for."
                )
        return {**shared, **self.corrected}

    def as_json(self) -> dict[str, Any]:
        """The plan without its tensors, as numbers and text."""
        return {
            "target": list(self.targets),
            "threshold": self.threshold,
            "layers": [_layer_as_json(layer) for layer in self.layers],
            "correction": CORRECTIONS.canonical(self.options.correction),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        correction = CORRECTIONS.canonical(self.options.correction)
        title = f"Plan to forget {', '.join(self.targets)} with {correction}"
        rows = [_HEADINGS, *(self._row(layer) for layer in self.layers)]
        notes = [f"Note: {note}." for note in self.notes]
        return "\n".join([title, *_aligned(rows), f"threshold {self.threshold:.4g}", *notes])

    def _row(self, layer: LayerPlan) -> tuple[str, ...]:
        largest = max(row.score for row in self.layers) or 1.0
        bar = "█" * round(_BAR_WIDTH * layer.score / largest)
        change = f"{layer.relative_change:.1e}" if layer.selected else ""
        return layer.name, f"{layer.score:.4f}", bar, "yes" if layer.selected else "", change


def _layer_as_json(layer: LayerPlan) -> dict[str, Any]:
    """JSON has no word for the infinite change of a layer that was all zero: that is null."""
    change = layer.relative_change if math.isfinite(layer.relative_change) else None
    return {**asdict(layer), "tensors": list(layer.tensors), "relative_change": change}


_BAR_WIDTH = 20
_HEADINGS = ("layer", "score", "", "chosen", "relative change")


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
