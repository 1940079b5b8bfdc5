"""The unlearning methods: what each does to the shared tensors when clients are forgotten.

A method is a function of plain data. It is given the shared tensors and the
records of a run, and returns the shared tensors without the targets; erasing
what belonged to them, recalibrating the others and writing it all down is the
same for every method and is done around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pfedul.records.fisher import FisherSource
from pfedul.registry import NoOptions, Registry
from pfedul.split import Layer
from pfedul.tensors import Tensors
from pfedul.unlearn.plan import Plan, plan_removal
from pfedul.unlearn.plan_options import PlanOptions


@dataclass(frozen=True)
class Material:
    """What a method may read."""

    fisher: FisherSource
    shared: Tensors
    initial: Tensors
    targets: Sequence[str]
    layers: Sequence[Layer]
    lr: float
    plan_options: PlanOptions


@dataclass(frozen=True)
class Method:
    """An entry of the registry."""

    name: str
    summary: str
    paper: str
    options: type[Any]
    plan: Callable[[Material], Plan]


def plan_pfedul(material: Material) -> Plan:
    """Stages 1 and 2 of pFedUL: attribution, selection, correction."""
    return plan_removal(
        material.fisher,
        material.shared,
        material.initial,
        list(material.targets),
        material.layers,
        material.plan_options,
        material.lr,
    )


PFEDUL = Method(
    name="pfedul",
    summary="correct the shared layers that the targets shaped most",
    paper="Liu, Li, Zhang, arXiv 2606.16304",
    options=NoOptions,
    plan=plan_pfedul,
)

METHODS = Registry("method", PFEDUL)
