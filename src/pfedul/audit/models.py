"""The federations that an audit looks at: trained, forgotten in a sealed copy, or left as they are.

Nothing here changes the run itself. Every federation works on the run's own engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pfedul.audit.ask.samples import Exam, check_enough, draw_exam
from pfedul.audit.ask.surfaces import STALE
from pfedul.audit.state import State, fitted_heads, served, state_of
from pfedul.base.tensors import Tensors
from pfedul.data import parse_backdoor
from pfedul.errors import PfedulError
from pfedul.personalization import Recalibration
from pfedul.protocol import OnStage, Reply, Task
from pfedul.run.retrained import Recipe, lend, open_recipe, replies_left, rounds_done
from pfedul.run.training import compute_round
from pfedul.store import requests
from pfedul.store.copies import TWIN_COPY, sealed_copy
from pfedul.store.paths import SHARED_FILE
from pfedul.store.store import Store
from pfedul.unlearn.checks import check_targets
from pfedul.unlearn.options import ForgetOptions
from pfedul.unlearn.outcome import Outcome
from pfedul.unlearn.removal import forget

if TYPE_CHECKING:
    from pfedul.run.run import Run as Federation


def check_ready(federation: Federation, targets: Sequence[str], what: str) -> None:
    """Refuse, in one sentence, a run on which a removal cannot be tried out and measured."""
    begun = requests.unfinished(federation.store.ledger)
    if begun is not None:
        raise PfedulError(
            f"Request {begun.number} to forget {', '.join(begun.targets)} is not finished; "
            f"finish it before {what}."
        )
    check_targets(federation, targets)
    if not federation.rounds:
        raise PfedulError("This run has not been trained, so there is nothing to forget.")
    data = federation.bench.data
    check_enough({target: data[target] for target in targets})


def exam_of(federation: Federation, targets: Sequence[str]) -> Exam:
    """The samples that models are asked about when these targets are forgotten."""
    data, planted = federation.bench.data, federation.settings.plant_backdoor
    return draw_exam(
        {target: data[target] for target in targets},
        {client: held for client, held in data.items() if client not in targets},
        federation.settings.seed,
        None if planted is None else parse_backdoor(planted),
    )


@dataclass(frozen=True, eq=False)
class Retrained:
    """An oracle or a twin: its tensors, its clients' accuracies, and what it took.

    `trained_now` are the seconds that were spent on it in this audit.
    """

    recipe: Recipe
    state: State
    accuracies: Mapping[str, float]
    cpu_seconds: float
    shared_sha256: str
    cached: bool
    trained_now: float

    def as_json(self, rounds: int) -> dict[str, Any]:
        return {
            "name": self.recipe.name,
            "seed": self.recipe.seed,
            "rounds": rounds,
            "cpu_seconds": self.cpu_seconds,
            "shared_sha256": self.shared_sha256,
            "cached": self.cached,
        }


def trained_oracles(
    federation: Federation, targets: Sequence[str], recipes: Sequence[Recipe], on_stage: OnStage
) -> list[Retrained]:
    """Oracles, trained as far as they are not yet; `targets` fit a part of their own to each."""
    found = []
    for recipe, told in _with_progress(federation, recipes, "oracles", on_stage):
        done = rounds_done(recipe)
        with closing(open_recipe(federation, recipe, told)) as oracle:
            state = _with_fitted_heads(oracle, federation, targets, recipe)
            found.append(_retrained(oracle, recipe, state, done))
    return found


def _with_progress(
    federation: Federation, recipes: Sequence[Recipe], stage: str, on_stage: OnStage
) -> Iterable[tuple[Recipe, Callable[[int], None]]]:
    """Each recipe with a function to call with the replies that it has had so far."""
    total = replies_left(federation, recipes)
    done = 0
    on_stage(stage, 0, max(1, total))
    for recipe in recipes:
        left = replies_left(federation, [recipe])
        every = federation.rounds * max(1, left // max(1, federation.rounds - rounds_done(recipe)))

        def told(replies: int, before: int = every - left, base: int = done) -> None:
            on_stage(stage, base + max(0, replies - before), max(1, total))

        yield recipe, told
        done += left
    on_stage(stage, max(1, total), max(1, total))


def _with_fitted_heads(
    oracle: Federation, run: Federation, targets: Sequence[str], recipe: Recipe
) -> State:
    epochs = run.rounds * run.settings.local_epochs
    fitted = STALE.missing(run.bench) is None and targets
    asked = run.bench, oracle.shared, targets, epochs, recipe.seed, run.clusters
    stale = fitted_heads(*asked) if fitted else {target: {} for target in targets}
    return state_of(oracle, oracle.clients, stale, run.clusters)


def _retrained(made: Federation, recipe: Recipe, state: State, done: int) -> Retrained:
    """What is known of a federation of which `done` rounds were there before this audit."""
    ledger, spent = made.store.ledger, "SELECT SUM(cpu_seconds) FROM rounds WHERE round > ?"
    return Retrained(
        recipe,
        state,
        {client: score.accuracy for client, score in made.measure().clients.items()},
        float(ledger.value(spent, 0) or 0.0),
        str(ledger.value("SELECT sha256 FROM files WHERE path = ?", SHARED_FILE)),
        cached=done >= made.rounds,
        trained_now=float(ledger.value(spent, done) or 0.0),
    )


@dataclass(frozen=True)
class Removed:
    """A removal that was tried out: its tensors, and what it says of itself."""

    state: State
    outcome: Outcome


def forget_in_copy(
    federation: Federation,
    name: str,
    targets: Sequence[str],
    options: ForgetOptions,
    away: Sequence[str],
    run: Federation,
    on_stage: OnStage | None = None,
) -> Removed:
    """Forget the targets in a sealed copy of `federation`; `run` has the engine and the place.

    The targets' own parts are kept in memory: that is what a target would keep.
    """
    stale = personal_of(federation, targets)
    place = sealed_copy(federation.store.path, run.store.path, name)
    start = lend(run.engine, federation.settings.seed)
    store = Store.open(place)
    with closing(type(run)(store, federation.settings, federation.bench, start=start)) as copy:
        outcome = forget(copy, targets, options, away, on_stage)
        return Removed(state_of(copy, copy.clients, stale, federation.clusters), outcome)


def personal_of(federation: Federation, clients: Sequence[str]) -> dict[str, Tensors]:
    """Personal tensors of some clients."""
    return {client: federation.personal(client) for client in clients}


def unlearned_twin(
    run: Federation,
    recipe: Recipe,
    told: Callable[[int], None],
    targets: Sequence[str],
    options: ForgetOptions,
    away: Sequence[str],
) -> Retrained:
    """A twin of the run, trained with the targets and then unlearned as the run will be."""
    done = rounds_done(recipe)
    with closing(open_recipe(run, recipe, told)) as twin:
        state = forget_in_copy(twin, TWIN_COPY, targets, options, away, run).state
        return _retrained(twin, recipe, state, done)


def unlearned_twins(
    run: Federation,
    recipes: Sequence[Recipe],
    targets: Sequence[str],
    options: ForgetOptions,
    away: Sequence[str],
    on_stage: OnStage,
) -> list[Retrained]:
    """The other unlearned models that strict audits compare with oracles."""
    if not recipes:
        return []
    return [
        unlearned_twin(run, recipe, told, targets, options, away)
        for recipe, told in _with_progress(run, recipes, "twins", on_stage)
    ]


def untouched_state(federation: Federation, targets: Sequence[str]) -> State:
    """The run as it is, with what the targets would keep."""
    remaining = [client for client in federation.clients if client not in targets]
    return state_of(federation, remaining, personal_of(federation, targets))


def one_more_round(federation: Federation, targets: Sequence[str]) -> State:
    """A control: an ordinary round with everybody, the targets included."""
    personal: dict[str, Tensors] = personal_of(federation, federation.clients)

    def keep(reply: Reply) -> None:
        personal[reply.client] = _own(reply.personal)

    result = compute_round(federation, federation.rounds + 1, federation.clients, keep)
    stale = {target: personal.pop(target) for target in targets}
    return served(federation.clusters, result.shared, personal, stale)


def recalibrated_only(federation: Federation, untouched: State, options: ForgetOptions) -> State:
    """A control: all that is done around the correction, and no correction."""
    how = options.recalibration() or Recalibration()
    task = Task("recalibrate", 0, recalibration=replace(how, statistics=False))
    clients = list(untouched.personal)
    arguments = task, clients, federation.shared, federation.locate_personal
    with closing(federation.engine.run(*arguments)) as replies:
        new = {reply.client: _own(reply.personal) for reply in replies}
    personal = {client: {**part, **new[client]} for client, part in untouched.personal.items()}
    return replace(untouched, personal=personal)


def _own(tensors: Tensors) -> Tensors:
    """Copies: the tensors of a reply last until the next one is asked for."""
    return {name: tensor.clone() for name, tensor in tensors.items()}
