"""From tensors to answers: every model is asked once, and all attacks read what it said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pfedul.audit.ask.logits import logits_from_heads, logits_of
from pfedul.audit.ask.samples import AuditSamples
from pfedul.audit.ask.surfaces import SURFACES, Surface, Views
from pfedul.audit.attacks.arrays import Array
from pfedul.audit.attacks.base import View
from pfedul.audit.state import State
from pfedul.base.randomness import numpy_generator
from pfedul.base.tensors import load_tensors
from pfedul.base.threads import one_core
from pfedul.data.samples import TensorSamples
from pfedul.protocol import OnStage, Workbench


@dataclass(frozen=True, eq=False)
class Answers:
    """Logits of one federation: by surface, and of each remaining client on its own samples.

    `triggered` has the remaining clients' answers to samples with a planted trigger.
    """

    views: Mapping[str, Views]
    own_train: Mapping[str, Array]
    own_test: Mapping[str, Array]
    triggered: Mapping[str, Array]


def surfaces_of(bench: Workbench, without: Sequence[str] = ()) -> list[Surface]:
    """Those that the personalisation has, less some that cannot be looked through."""
    return [s for s in SURFACES if s.missing(bench) is None and s.name not in without]


def ask(
    bench: Workbench, samples: AuditSamples, state: State, surfaces: Sequence[Surface]
) -> Answers:
    """All that an audit wants to know of a federation."""
    with one_core():
        views = _views(bench, samples, state, surfaces)
    train, test = (_on_own(bench, state, own) for own in (samples.own_train, samples.own_test))
    seen, clients = samples.triggered, (state.shared, state.personal)
    return Answers(
        views, train, test, {} if seen is None else logits_from_heads(bench, *clients, seen)
    )


def _views(
    bench: Workbench, samples: AuditSamples, state: State, surfaces: Sequence[Surface]
) -> dict[str, Views]:
    """By surface; two that look through the same models share what these answered."""
    made: dict[object, Views] = {}
    for surface in surfaces:
        if surface.views not in made:
            made[surface.views] = surface.views(bench, samples, state)
    return {surface.name: made[surface.views] for surface in surfaces}


def ask_all(
    bench: Workbench,
    samples: AuditSamples,
    states: Mapping[str, State],
    surfaces: Sequence[Surface],
    on_stage: OnStage,
) -> dict[str, Answers]:
    """The answers of several federations, by name."""
    found = {}
    for done, (name, state) in enumerate(states.items()):
        on_stage("questions", done, len(states))
        found[name] = ask(bench, samples, state, surfaces)
    on_stage("questions", len(states), len(states))
    return found


def _on_own(
    bench: Workbench, state: State, samples: Mapping[str, TensorSamples]
) -> dict[str, Array]:
    model, found = bench.working_model(), {}
    for client, part in state.personal.items():
        load_tensors(model, state.shared, part)  # all tensors: nothing stays of another client
        found[client] = logits_of(model, samples[client], bench.training.task)
    return found


def noisy(answers: Answers, scale: float, seed: int) -> Answers:
    """The same answers with Gaussian noise on every logit: a way to hide without forgetting."""
    stream = numpy_generator(seed, "noise on answers")

    def shaken(logits: Array) -> Array:
        return logits + scale * stream.standard_normal(logits.shape)

    def view(one: View) -> View:
        members, nonmembers = shaken(one.members), shaken(one.nonmembers)
        return View(one.name, members, nonmembers, shaken(one.population), one.labels)

    return Answers(
        {surface: tuple(map(view, views)) for surface, views in answers.views.items()},
        *(
            {client: shaken(logits) for client, logits in own.items()}
            for own in (answers.own_train, answers.own_test, answers.triggered)
        ),
    )
