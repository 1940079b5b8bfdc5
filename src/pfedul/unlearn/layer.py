"""One layer of a plan: what its correction is shown, and what it leads to (Eq. 9 to 11)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from pfedul.base.tensors import Tensors
from pfedul.errors import PfedulError
from pfedul.split import Layer
from pfedul.unlearn.pfedul.corrections import Correction, LayerView
from pfedul.unlearn.pfedul.result import LayerPlan


@dataclass(frozen=True, eq=False)
class Material:
    """All that corrections may read, over all layers; `unit` turns the Fisher into theirs."""

    shared: Tensors
    initial: Tensors
    target: Tensors
    total: Tensors
    unit: float
    largest: float
    mean: float


def plan_layer(
    layer: Layer,
    score: float,
    weight: float | None,
    material: Material,
    correction: Correction,
    options: Any,
) -> tuple[LayerPlan, Tensors]:
    """The layer's line of the plan and its tensors that change; no weight means not chosen."""
    row = LayerPlan(layer.name, layer.tensors, layer.parameters, score, weight is not None)
    if weight is None:
        return row, {}
    first = _first_names(layer, material.shared, material.initial)
    view = _view(tuple(dict.fromkeys(first.values())), weight, material)
    found = correction.correct(view, options)
    relative = _relative_change(layer, math.hypot(*found.changes.values()), found.norm)
    corrected = {name: found.tensors[twin] for name, twin in first.items() if found.changes[twin]}
    return replace(row, relative_change=relative, at_bound=found.at_bound), corrected


def _view(names: tuple[str, ...], weight: float, material: Material) -> LayerView:
    return LayerView(
        shared={name: material.shared[name] for name in names},
        initial={name: material.initial[name] for name in names},
        target={name: material.target[name] for name in names},
        total={name: material.total[name] for name in names},
        unit=material.unit,
        score=weight,
        largest=material.largest,
        mean=material.mean,
    )


def _first_names(layer: Layer, shared: Tensors, initial: Tensors) -> dict[str, str]:
    """Each name -> the first name of the same tensor, so that a tied one is corrected once.

    A layer that counts fewer parameters than its tensors have says that some
    are tied. Plain dictionaries do not say which: those with equal values.
    """
    names = layer.tensors
    if layer.parameters >= sum(shared[name].numel() for name in names):
        return {name: name for name in names}
    same = (
        (name, next(other for other in names if _equal(shared, initial, name, other)))
        for name in names
    )
    return dict(same)


def _equal(shared: Tensors, initial: Tensors, name: str, other: str) -> bool:
    return name == other or all(torch.equal(part[name], part[other]) for part in (shared, initial))


def _relative_change(layer: Layer, change: float, size: float) -> float:
    if not math.isfinite(change + size):
        raise PfedulError(
            f"The layer '{layer.name}' has NaN or infinite weights, now or before training; "
            "go back to tensors without any before you plan."
        )
    if size:
        return change / size
    return math.inf if change else 0.0
