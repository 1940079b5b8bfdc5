"""What a method did to each layer, in the form in which an outcome keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pfedul.base.tensors import Tensors, norm
from pfedul.run.run import Run
from pfedul.unlearn.base import Result


def plan_json(run: Run, targets: Sequence[str], method: str, result: Result) -> dict[str, Any]:
    """pFedUL's plan; for other methods how far each layer moved."""
    if result.plan is not None:
        return result.plan.as_json()
    return {
        "target": list(targets),
        "threshold": None,
        "layers": _moved_layers(run, result.shared),
        "correction": method,
        "notes": [],
    }


def _moved_layers(run: Run, after: Tensors) -> list[dict[str, Any]]:
    """How far each shared layer moved, in the form of a plan without scores."""
    rows = []
    for layer in run.bench.split.layers:
        before = {name: run.shared[name] for name in run.clusters.names(layer.tensors)}
        change = norm({name: after[name] - tensor for name, tensor in before.items()})
        size = norm(before)
        rows.append(
            {
                "name": layer.name,
                "tensors": list(layer.tensors),
                "parameters": layer.parameters,
                "score": None,
                "selected": change > 0,
                "relative_change": change / size if size else None,
                "at_bound": None,
            }
        )
    return rows
