"""Relearn time: how soon a model is as good again on the forgotten samples when trained on them.

A. Golatkar, A. Achille, S. Soatto, ECCV 2020 (arXiv 2003.02960), and A. K. Tarun et
al., "Fast yet effective machine unlearning", IEEE TNNLS 2023 (arXiv 2111.08947),
count epochs up to the loss, or the accuracy within a margin, of the original model.
What was hidden and not erased comes back sooner than an oracle learns it. Here the
count is of accuracy, with anchors: the original model (0 epochs), oracles (the goal) and
a fresh model (is anything useful learnt from the others?). All start with the same fresh
personal part and the same fresh head, drawn with a seed of their own, which none of them was
trained with: so only the shared tensors below the head differ.

Training is the client's own local training on all parameters, as FedPer's. It differs
from the papers in the learning rate, which is the federation's. Momentum is reset in
every epoch, as in every round of a federation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from pfedul.audit.ask.answers import Answers
from pfedul.audit.ask.samples import AuditSamples, together
from pfedul.base.device import device_of_model
from pfedul.base.randomness import derive_seed, random_stream
from pfedul.base.tensors import Tensors, load_tensors, read_tensors
from pfedul.base.threads import one_thread
from pfedul.client import measure
from pfedul.data.samples import Samples
from pfedul.errors import PfedulError
from pfedul.personalization.local import run_sgd, trainable
from pfedul.protocol import OnStage, Workbench
from pfedul.run.assembly import reseeded
from pfedul.split import head_of

MOST_EPOCHS = 12
TOLERANCE = 0.01
_ROUNDING = 1e-12  # 0.9 - 0.1 must be within 0.1 of 0.9


def old_accuracy(samples: AuditSamples, untouched: Answers) -> float:
    """Accuracy of the targets' own models on their training samples, before the removal."""
    surface = "stale" if "stale" in untouched.views else "shared"
    right = untouched.views[surface][0].members.argmax(axis=1) == samples.labels.members
    return float(right.mean())


def relearn_time(
    bench: Workbench,
    samples: AuditSamples,
    starts: Mapping[str, Tensors],
    untouched: Answers,
    on_stage: OnStage,
) -> dict[str, Any] | None:
    """Curves of accuracy on the targets' samples, and epochs until the old accuracy is back.

    None for a task without classes, where answers do not say what was right.
    """
    if not samples.task.classes:
        return None
    targets, wanted = together(samples.members.values()), old_accuracy(samples, untouched)
    shared_of = {**starts, "fresh": read_tensors(bench.build_model(), bench.split.shared)}
    part, curves = fresh_part(bench), {}
    for done, (name, shared) in enumerate(shared_of.items()):
        on_stage("relearning", done, len(shared_of))
        curves[name] = relearning_curve(
            bench, {**shared, **part}, targets, MOST_EPOCHS, wanted - TOLERANCE
        )
    on_stage("relearning", len(shared_of), len(shared_of))
    epochs = {name: epochs_to_return(curve, wanted, TOLERANCE) for name, curve in curves.items()}
    return {"old_accuracy": wanted, "tolerance": TOLERANCE, "curves": curves, "epochs": epochs}


def fresh_part(bench: Workbench) -> Tensors:
    """Initial tensors of the personal part and of the head, that no model was trained with."""
    seed = derive_seed(bench.seed, "relearn", "head") % 2**31
    model = reseeded(bench, seed, ()).build_model()
    whole = bench.split.keeps_whole_models
    names = set() if whole else set(bench.split.personal)
    with suppress(PfedulError):  # not every model has a head that can be seen
        head = bench.head or head_of(model)
        names |= {name for name in model.state_dict() if name.startswith(f"{head}.")}
    return read_tensors(model, sorted(names))


def relearning_curve(
    bench: Workbench, start: Tensors, samples: Samples, epochs: int, stop_at: float = math.inf
) -> list[float]:
    """Accuracy on `samples` before the first epoch of training on them, and after each.

    It ends early when the accuracy reaches `stop_at`. The shuffles are the same from every
    start. Tensors that `start` does not have start with their initial values.
    """
    model = bench.working_model()
    load_tensors(model, start)
    samples = samples.to(device_of_model(model))
    with one_thread(), random_stream(bench.seed, "relearn"):
        curve = [measure(model, samples, bench.training.task)["accuracy"]]
        while len(curve) <= epochs and curve[-1] < stop_at - _ROUNDING:
            model.train()
            run_sgd(model, trainable(model), samples, bench.training, epochs=1)
            curve.append(measure(model, samples, bench.training.task)["accuracy"])
    return curve


def epochs_to_return(
    curve: Sequence[float], old_accuracy: float, tolerance: float = 0.0
) -> int | None:
    """The first epoch at which the curve is back at the old accuracy, or within the tolerance."""
    there = np.asarray(curve) >= old_accuracy - tolerance - _ROUNDING
    return int(there.argmax()) if there.any() else None
