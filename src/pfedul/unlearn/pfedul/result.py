"""A plan and its options: scores, threshold, chosen layers and corrected tensors."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from pfedul.base.options import check_options, option, option_name
from pfedul.base.result import Result
from pfedul.errors import PfedulError
from pfedul.unlearn.pfedul.corrections import CORRECTIONS

if TYPE_CHECKING:
    from pfedul.base.tensors import Tensors


PLAN = "Plan of 'pfedul' and the paper's ablations"
"""The heading of these options in the help."""


@dataclass(frozen=True)
class PlanOptions:
    """What to choose and how to correct it; the defaults are the paper's.

    `scores`, `intensity` and `layers` are the paper's ablations: no attribution, the same
    intensity for every chosen layer, and another choice of layers.
    """

    alpha: float = option(
        0.5,
        "A layer is chosen above mean + alpha * deviation of the scores.",
        at_least=0,
        group=PLAN,
    )
    correction: str = option(
        "paper", "How chosen layers are corrected, with its options.", registry=CORRECTIONS
    )
    scores: str = option(
        "fisher",
        "'uniform': every layer, without attribution.",
        choices=("fisher", "uniform"),
        group=PLAN,
    )
    intensity: str = option(
        "adaptive",
        "'uniform': every chosen layer alike.",
        choices=("adaptive", "uniform"),
        group=PLAN,
    )
    layers: str | None = option(
        None,
        "Which layers: high, as many low or random ones, or all; 'all' for the correction "
        "'exclude', 'high' for the others.",
        choices=("high", "low", "random", "all"),
        group=PLAN,
    )
    at_least: int = option(0, "Choose at least so many layers.", at_least=0, group=PLAN)
    fisher_noise: float = option(
        0.0, "Noise on the Fisher as it is read, relative to its size.", at_least=0, group=PLAN
    )
    seed: int = option(0, "seed of random layers and of the noise", at_least=0)

    def __post_init__(self) -> None:
        check_options(self, written=str)
        if self.scores == "uniform" and self.layers in {"low", "random"}:
            raise PfedulError(
                f"scores='uniform' corrects every layer, so layers='{self.layers}' has "
                "nothing to choose; leave out one of the two."
            )
        if self._excludes:
            self._refuse_choices()

    @property
    def _excludes(self) -> bool:
        return CORRECTIONS.parse(self.correction)[0].record == "contributions"

    @property
    def which_layers(self) -> str:
        """`layers`, or what is usual for the correction."""
        return self.layers or ("all" if self._excludes else "high")

    def _refuse_choices(self) -> None:
        usual = {spec.name: spec.default for spec in fields(self)}
        choosing = () if self.which_layers != "all" else ("alpha", "at_least")
        for name in ("scores", "intensity", "fisher_noise", *choosing):
            if getattr(self, name) != usual[name]:
                raise PfedulError(
                    f"The correction '{self.correction.partition(':')[0]}' takes out what its "
                    "record of contributions holds, of every layer unless --layers says "
                    f"otherwise, so {option_name(name)} decides nothing here; leave it out, or "
                    "give another correction with it, such as --correction paper."
                )


@dataclass(frozen=True)
class LayerPlan:
    """A plan's row for one layer.

    `score` is I_l, even if an ablation corrects with another number. `relative_change`
    is ||change||_2 / ||theta_l||_2 after rounding, infinite for a layer of zeros.
    `at_bound` is the share of entries at the bound of Eq. 11, or of reset entries.
    """

    name: str
    tensors: tuple[str, ...]
    parameters: int
    score: float
    selected: bool
    relative_change: float = 0.0
    at_bound: float = 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Result):
    """What forgetting these targets will do to the shared tensors.

    `corrected` has the new values of the tensors that change.
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
        """The corrected shared tensors; tensors that do not change are the same objects.

        `shared` must be what the plan was made for: after another round of training a new
        plan is needed.
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
            "correction": self.options.correction,
            "notes": list(self.notes),
        }

    def _facts(self) -> dict[str, Any]:
        chosen, threshold = list(self.selected), self.threshold
        facts = {"targets": list(self.targets), "chosen": chosen, "layers": len(self.layers)}
        return {**facts, "threshold": threshold, "correction": self.options.correction}

    def _sentences(self) -> list[str]:
        return [f"Note: {note}." for note in self.notes]

    def _rows(self) -> list[dict[str, Any]]:
        return [{**asdict(layer), "tensors": len(layer.tensors)} for layer in self.layers]

    def __str__(self) -> str:
        title = f"Plan to forget {', '.join(self.targets)} with {self.options.correction}"
        rows = [_HEADINGS, *(self._row(layer) for layer in self.layers)]
        threshold = f"threshold {self.threshold:.4g}"
        return "\n".join([title, *_aligned(rows), threshold, *self._sentences()])

    def _row(self, layer: LayerPlan) -> tuple[str, ...]:
        largest = max(row.score for row in self.layers) or 1.0
        bar = "█" * round(_BAR_WIDTH * layer.score / largest)
        change = f"{layer.relative_change:.1e}" if layer.selected else ""
        return layer.name, f"{layer.score:.4f}", bar, "yes" if layer.selected else "", change


def _layer_as_json(layer: LayerPlan) -> dict[str, Any]:
    """JSON has no infinity: the relative change of a layer of zeros is null."""
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
