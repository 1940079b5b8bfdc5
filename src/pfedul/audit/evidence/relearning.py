"""Relearn time of a removal: the candidate beside its anchors, all from equal starts.

Every federation starts with the initial personal part, so that only the shared tensors
differ: those of the candidate, of the run before, of each oracle, and fresh ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pfedul.audit.ask.answers import Answers
from pfedul.audit.ask.samples import Exam, together
from pfedul.audit.attacks.relearn import epochs_to_return
from pfedul.audit.relearning import relearning_curve
from pfedul.base.tensors import Tensors, read_tensors
from pfedul.protocol import OnStage, Workbench

MOST_EPOCHS = 12
TOLERANCE = 0.01


def old_accuracy(exam: Exam, untouched: Answers) -> float:
    """Of the targets' own models on their training samples, before the removal."""
    surface = "stale" if "stale" in untouched.views else "shared"
    right = untouched.views[surface][0].members.argmax(axis=1) == exam.member_labels
    return float(right.mean())


def relearn_time(
    bench: Workbench,
    exam: Exam,
    starts: Mapping[str, Tensors],
    wanted: float,
    on_stage: OnStage,
) -> dict[str, Any]:
    """Curves of accuracy on the targets' samples, and epochs until the old accuracy is back."""
    samples = together(exam.members.values())
    fresh = read_tensors(bench.build_model(), bench.split.shared)
    shared_of = {**starts, "fresh": fresh}
    curves = {}
    for done, (name, shared) in enumerate(shared_of.items()):
        on_stage("relearning", done, len(shared_of))
        curves[name] = relearning_curve(
            *(bench, shared, {}, samples, MOST_EPOCHS, bench.seed),
            stop_at=max(0.0, wanted - TOLERANCE),
        )
    on_stage("relearning", len(shared_of), len(shared_of))
    epochs = {name: epochs_to_return(curve, wanted, TOLERANCE) for name, curve in curves.items()}
    return {"old_accuracy": wanted, "tolerance": TOLERANCE, "curves": curves, "epochs": epochs}
