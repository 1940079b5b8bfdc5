"""The federations that an audit looks at: retrained, forgotten in a sealed copy, or as they are.

Nothing here changes the run itself. Every federation works on the run's own engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from pfedul.audit.ask.samples import AuditSamples, check_enough, draw_samples
from pfedul.audit.ask.surfaces import STALE
from pfedul.audit.state import State, served, state_of
from pfedul.base.tensorfile import encode
from pfedul.base.tensors import Tensors, read_tensors
from pfedul.data.samples import ClientData
from pfedul.data.trigger import parse_backdoor
from pfedul.errors import PfedulError
from pfedul.personalization import Recalibration
from pfedul.protocol import OnStage, Refusal, Reply, Task
from pfedul.run.retrained import Recipe, lend, open_recipe, replies_left, rounds_done
from pfedul.run.run import Run
from pfedul.run.training import compute_round
from pfedul.server.checks import check_layout
from pfedul.server.round import Ask, ask_clients
from pfedul.store.copies import TWIN_COPY, sealed_copy
from pfedul.store.paths import SHARED_FILE
from pfedul.store.requests import unfinished
from pfedul.store.store import Store
from pfedul.store.tables import digest_of, spent_on_rounds
from pfedul.unlearn.checks import check_targets
from pfedul.unlearn.options import ForgetOptions
from pfedul.unlearn.outcome import Outcome
from pfedul.unlearn.removal import forget
from pfedul.unlearn.witness import Examine

MOST_EPOCHS = 50
"""For the head that a target fits on an oracle; further epochs do not change it."""


def check_ready(run: Run, targets: Sequence[str], what: str) -> None:
    """Refuse, in one sentence, a run on which a removal cannot be tried out and measured.

    A pending request has touched no tensor, so another way to honour it can be tried out.
    """
    request = unfinished(run.store.ledger)
    if request is not None and set(request.targets) != set(targets):
        raise PfedulError(
            f"Request {request.number} to forget {', '.join(request.targets)} is not finished; "
            f"finish it before {what}."
        )
    check_targets(run, targets)
    if not run.rounds:
        raise PfedulError("This run has not been trained, so there is nothing to forget.")
    check_enough({target: run.bench.data[target] for target in targets})


def samples_of(run: Run, targets: Mapping[str, ClientData] | Sequence[str]) -> AuditSamples:
    """The samples that models are asked about when these targets are forgotten.

    Targets that have left the run come with their data.
    """
    data, planted = run.bench.data, run.settings.plant_backdoor
    return draw_samples(
        targets if isinstance(targets, Mapping) else {target: data[target] for target in targets},
        {client: held for client, held in data.items() if client not in targets},
        run.settings.seed,
        None if planted is None else parse_backdoor(planted),
        run.bench.training.task,
    )


# Retrained


@dataclass(frozen=True, eq=False)
class Retrained:
    """An oracle or a twin: its tensors, the accuracies of its clients, and what it cost.

    `trained_now` are the CPU seconds that were spent on it in this audit.
    """

    recipe: Recipe
    state: State
    accuracies: Mapping[str, float]
    seconds: float
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
    run: Run, targets: Sequence[str], recipes: Sequence[Recipe], on_stage: OnStage
) -> list[Retrained]:
    """Oracles, trained as far as they are not yet; `targets` fit a part of their own to each."""
    oracles = []
    for recipe, on_replies in _with_progress(run, recipes, "oracles", on_stage):
        done = rounds_done(run, recipe)
        with closing(open_recipe(run, recipe, on_replies)) as oracle:
            fitted = fitted_heads(run, oracle.shared, targets, recipe.seed)
            stale = personal_of(run, targets)
            state = state_of(oracle, oracle.clients, stale, run.clusters, fitted)
            oracles.append(_retrained(oracle, recipe, state, done))
    return oracles


def _with_progress(
    run: Run, recipes: Sequence[Recipe], stage: str, on_stage: OnStage
) -> Iterable[tuple[Recipe, Callable[[int], None]]]:
    """Each recipe with a function to call with the replies that it has had so far."""
    total = replies_left(run, recipes)
    done = 0
    on_stage(stage, 0, max(1, total))
    for recipe in recipes:
        left = replies_left(run, [recipe])
        every = run.rounds * max(1, left // max(1, run.rounds - rounds_done(run, recipe)))

        def on_replies(replies: int, before: int = every - left, base: int = done) -> None:
            on_stage(stage, base + max(0, replies - before), max(1, total))

        yield recipe, on_replies
        done += left
    on_stage(stage, max(1, total), max(1, total))


def fitted_heads(
    run: Run, shared: Tensors, targets: Sequence[str], seed: int
) -> dict[str, Tensors]:
    """The personal part that each target fits to the shared tensors of an oracle.

    Empty where there is no such surface.
    """
    if STALE.missing(run.bench) is not None or not targets:
        return {target: {} for target in targets}
    epochs = min(run.rounds * run.settings.local_epochs, MOST_EPOCHS)
    how = Recalibration(epochs=epochs, affine=True)
    task = Task("recalibrate", 0, recalibration=how, seed=seed)
    with TemporaryDirectory() as folder:
        initial = Path(folder) / "initial.safetensors"
        initial.write_bytes(encode(read_tensors(run.bench.build_model(), run.bench.split.personal)))
        ask = partial(ask_clients, run.engine, lambda _client: initial)
        return _recalibrated(run, ask, task, targets, shared)


def _recalibrated(
    run: Run, ask: Ask, task: Task, clients: Sequence[str], shared: Tensors
) -> dict[str, Tensors]:
    """Personal tensors of clients after a task; an audit needs those of all of them."""
    layout = run.rules().personal

    def check(reply: Reply, _client: str) -> str | None:
        return check_layout("personal", reply.personal, layout)

    replies = ask(task, clients, shared, check, on_refusal=_give_up)
    return {reply.client: _copied(reply.personal) for reply in replies}


def _give_up(refusal: Refusal) -> NoReturn:
    raise PfedulError(
        f"Client '{refusal.client}' could not recalibrate for the audit: {refusal.reason}. "
        "Try again; what was trained is kept."
    )


def _copied(tensors: Tensors) -> Tensors:
    """The tensors of a reply last until the next one is asked for."""
    return {name: tensor.clone() for name, tensor in tensors.items()}


def _retrained(made: Run, recipe: Recipe, state: State, done: int) -> Retrained:
    """What is known of a federation of which `done` rounds were there before this audit."""
    ledger = made.store.ledger
    spent = spent_on_rounds(ledger)
    return Retrained(
        recipe,
        state,
        {client: score.accuracy for client, score in made.measure().clients.items()},
        spent.seconds,
        spent.cpu_seconds,
        str(digest_of(ledger, SHARED_FILE)),
        cached=done >= made.rounds,
        trained_now=spent_on_rounds(ledger, since=done).cpu_seconds,
    )


# Unlearned


def forget_in_copy(
    original: Run,
    name: str,
    targets: Sequence[str],
    options: ForgetOptions,
    away: Sequence[str],
    *,
    run: Run,
    on_stage: OnStage | None = None,
    examine: Examine | None = None,
) -> tuple[State, Outcome]:
    """Forget the targets in a sealed copy of `original`; `run` has the engine and the folder.

    The targets' own parts are kept in memory: that is what a target would keep.
    """
    stale = personal_of(original, targets)
    place = sealed_copy(original.store.path, run.store.path, name)
    store = Store.open_unremembered(place)
    start = lend(run.engine, original.settings.seed)
    with closing(Run(store, original.settings, original.bench, start=start)) as copy:
        outcome = forget(copy, targets, options, away, on_stage, examine)
        return state_of(copy, copy.clients, stale, original.clusters), outcome


def personal_of(run: Run, clients: Sequence[str]) -> dict[str, Tensors]:
    """Personal tensors of some clients."""
    return {client: run.personal(client) for client in clients}


def unlearned_twins(
    run: Run,
    recipes: Sequence[Recipe],
    targets: Sequence[str],
    options: ForgetOptions,
    away: Sequence[str],
    on_stage: OnStage,
) -> list[Retrained]:
    """Twins of the run, trained with the targets and then unlearned as the run will be."""
    twins: list[Retrained] = []
    if not recipes:
        return twins
    for recipe, on_replies in _with_progress(run, recipes, "twins", on_stage):
        done = rounds_done(run, recipe)
        with closing(open_recipe(run, recipe, on_replies)) as twin:
            state, _ = forget_in_copy(twin, TWIN_COPY, targets, options, away, run=run)
            twins.append(_retrained(twin, recipe, state, done))
    return twins


# As they are, and controls


def untouched_state(run: Run, targets: Sequence[str]) -> State:
    """The run as it is, with what the targets would keep."""
    remaining = [client for client in run.clients if client not in targets]
    return state_of(run, remaining, personal_of(run, targets))


def one_more_round(run: Run, targets: Sequence[str]) -> State:
    """A control: an ordinary round with everybody, the targets included."""
    personal = personal_of(run, run.clients)

    def keep(reply: Reply) -> None:
        personal[reply.client] = _copied(reply.personal)

    result = compute_round(run, run.rounds + 1, run.clients, keep)
    stale = {target: personal.pop(target) for target in targets}
    return served(run.clusters, result.shared, personal, stale)


def recalibrated_only(run: Run, untouched: State, options: ForgetOptions) -> State:
    """A control: everything that is done around the correction, without the correction."""
    how = options.recalibration() or Recalibration()
    task = Task("recalibrate", 0, recalibration=how)
    clients = list(untouched.personal)
    new = _recalibrated(run, run.ask, task, clients, run.shared)
    personal = {client: {**part, **new[client]} for client, part in untouched.personal.items()}
    return replace(untouched, personal=personal)
