"""The surfaces of an attack: through which models a forgotten client can still be seen.

The target's own personal part is deleted, so the question is what the others' models
show, what the target (or a backup) sees that kept its personal part, and what the
shared features reveal to an attacker who fits a fresh head to them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from pfedul.audit.ask.logits import head_features, logits_from_heads, logits_of
from pfedul.audit.ask.samples import AuditSamples, labels_of, together
from pfedul.audit.attacks.arrays import Array, Whole
from pfedul.audit.attacks.base import View
from pfedul.audit.state import State
from pfedul.base.inputs import single
from pfedul.base.tensors import Tensors, load_tensors
from pfedul.data.samples import TensorSamples
from pfedul.errors import PfedulError
from pfedul.protocol import Workbench
from pfedul.split import head_of

Views = tuple[View, ...]

_ABSENT = -50.0
"""Log-probability of a class that the probe has never seen."""


@dataclass(frozen=True)
class Surface:
    """`explanation` is for readers who do not train models: two sentences.

    `missing` says why a personalisation does not have this surface; None if it has.

    `worst` asks for the client whose model shows most, in place of the mean; such a
    surface has the views of the one before it. What is not `judged` is shown as a figure only.
    """

    name: str
    title: str
    summary: str
    explanation: str
    missing: Callable[[Workbench], str | None]
    views: Callable[[Workbench, AuditSamples, State], Views]
    worst: bool = False
    judged: bool = True


def _remaining(bench: Workbench, samples: AuditSamples, state: State) -> Views:
    found = logits_from_heads(bench, state.shared, state.personal, samples.asked)
    return tuple(samples.view(client, logits) for client, logits in found.items())


def _shared_model(bench: Workbench, samples: AuditSamples, state: State) -> Views:
    found = logits_from_heads(bench, state.shared, {"shared": {}}, samples.asked)
    return (samples.view("shared", found["shared"]),)


def _stale(bench: Workbench, samples: AuditSamples, state: State) -> Views:
    """Each target's samples through its own part; the population through all of them."""
    parts = [_through_own_part(bench, samples, state, target) for target in samples.members]
    members, nonmembers, others = (np.concatenate(part) for part in zip(*parts, strict=True))
    labels = replace(samples.labels, population=np.tile(samples.labels.population, len(parts)))
    return (View("stale", members, nonmembers, others, labels),)


def _fitted_part(bench: Workbench, samples: AuditSamples, state: State) -> Views:
    """The same through a part that was fitted to an oracle; other models have only the old one."""
    return _stale(bench, samples, replace(state, stale=state.fitted or state.stale))


def _through_own_part(
    bench: Workbench, samples: AuditSamples, state: State, target: str
) -> list[Array]:
    inside, outside = samples.members[target], samples.nonmembers[target]
    asked = together([inside, outside, samples.population])
    own = {target: state.stale[target]}
    logits = logits_from_heads(bench, state.shared, own, asked)[target]
    return np.split(logits, [len(inside), len(inside) + len(outside)])


def _probe(bench: Workbench, samples: AuditSamples, state: State) -> Views:
    """A regression on the features of the remaining clients, asked about the targets' samples."""
    known, features = labels_of(samples.fitting), features_of(bench, state, samples.asked)
    rule = _fitted(features_of(bench, state, samples.fitting), known)
    classes = int(max(labels_of(samples.asked).max(), known.max())) + 1
    answers = np.full((len(features), classes), _ABSENT)
    answers[:, rule[-1].classes_] = np.maximum(rule.predict_log_proba(features), _ABSENT)
    return (samples.view("probe", answers),)


def features_of(bench: Workbench, state: State, samples: TensorSamples) -> Array:
    """What the head is given; the model's answers where it goes on after its head."""
    model = bench.working_model()
    load_tensors(model, state.shared, newcomer_part(bench, state))
    found = head_features(bench, model, samples)
    if found is None:
        return logits_of(model, samples)
    features: Array = single(found.x).flatten(1).cpu().double().numpy()
    return features


def _fitted(features: Array, labels: Whole) -> Any:
    """A regression from features to classes; it answers with log-probabilities."""
    # imported here: scikit-learn takes a second
    from sklearn.dummy import DummyClassifier
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    several = len(np.unique(labels)) > 1
    rule = LogisticRegression(max_iter=200) if several else DummyClassifier()
    with warnings.catch_warnings():
        # All models have the same number of steps, so a probe may stop short of its optimum.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make_pipeline(StandardScaler(), rule).fit(features, labels)


def newcomer_part(bench: Workbench, state: State) -> Tensors:
    """Personal tensors below the head are means of the remaining clients'; heads are not used."""
    names = () if bench.split.keeps_whole_models else bench.split.personal_features(bench.head)
    parts = list(state.personal.values())
    return {
        name: torch.stack([part[name].double() for part in parts]).mean(0).to(parts[0][name].dtype)
        for name in names
    }


def _no_personal_models(bench: Workbench) -> str | None:
    if bench.split.personal:
        return None
    return "nothing is personal: every client's model is the shared one"


def _no_stale_part(bench: Workbench) -> str | None:
    if not bench.split.personal:
        return "nothing is personal, so the target has no part to keep"
    if bench.split.keeps_whole_models:
        return "the part that the target kept is a whole model, which no removal can reach"
    return None


def _no_shared_model(bench: Workbench) -> str | None:
    if not bench.split.personal or bench.split.keeps_whole_models:
        return None
    return "the shared tensors are not a whole model"


def _no_probe(bench: Workbench) -> str | None:
    """The probe tells classes apart, in the place of the head, so there must be one to be seen."""
    if not bench.training.task.classes:
        task = bench.training.task.name
        return (
            f"a probe tells classes apart, and the task {task} has none; the attacks through the "
            "other surfaces serve every task"
        )
    if bench.head is None:
        try:
            head_of(bench.build_model())
        except PfedulError:
            return "no submodule of the model looks like a head, so nothing can take its place"
    return None


STALE = Surface(
    "stale",
    "the target's own part, re-attached",
    "the new shared tensors under the personal part that the target, or a backup, kept; "
    "compared with an oracle's under the same part",
    (
        "The removed client, or a backup, kept its own part of the model (often its head) and "
        "puts it on the new shared part. This is what the client itself could see, or a "
        "thief of its device."
    ),
    _no_stale_part,
    _stale,
)
FITTED = Surface(
    "fitted",
    "the target's own part, against parts fitted to oracles",
    "the same, compared with an oracle's shared tensors under a part that the target fitted to "
    "them: what a head alone gives away; shown and not judged",
    (
        "The same with a head that was fitted to a retrained model. It shows what a head "
        "alone gives away."
    ),
    _no_stale_part,
    _fitted_part,
    judged=False,
)

SURFACES = (
    Surface(
        "remaining",
        "the remaining clients' models (mean)",
        "the targets' samples through each remaining client's personal model, averaged",
        (
            "The attacker asks the personal models of the clients that remain about the "
            "removed client's samples; the figure is the mean over these models. This is "
            "what any client still in the federation can see."
        ),
        _no_personal_models,
        _remaining,
    ),
    Surface(
        "worst",
        "the remaining clients' models (worst)",
        "the same through the one remaining client's model that gives away most",
        (
            "The same, through the one remaining client's model that gives away most. It "
            "shows whether the mean hides a model that remembers."
        ),
        _no_personal_models,
        _remaining,
        worst=True,
    ),
    STALE,
    FITTED,
    Surface(
        "shared",
        "the shared model",
        "the targets' samples through the shared model itself",
        ("The attacker asks the shared model itself. Every client has it, and so has the server."),
        _no_shared_model,
        _shared_model,
    ),
    Surface(
        "probe",
        "a fresh probe",
        "a new head, fitted on the remaining clients' features, on the targets' samples",
        (
            "The attacker trains a fresh head on the shared part, with samples of other "
            "clients, and asks the two together. It finds traces in the shared part where "
            "no old head is at hand."
        ),
        _no_probe,
        _probe,
    ),
)
