"""Federations that an audit trains: oracles without the targets, and twins with them.

An *oracle* is the run's own configuration, retrained from its first round without
the targets, with another seed: other initial weights, other batches, the same data.
It is what a removal is measured against. A *twin* is the same with the targets, to
be unlearned in turn: attacks that compare many unlearned with many retrained models
need several. Both are ordinary run folders, so a killed audit resumes.

Removal by retraining works in the same way, with the run's own seed
(unlearn/methods/retrain.py).

An oracle differs from the run in one way: a client that joined late is in it from the first
round.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pfedul.base.hashes import digest
from pfedul.base.randomness import derive_seed
from pfedul.base.tensors import Tensors
from pfedul.clusters.layout import Clusters
from pfedul.engine import Engine
from pfedul.protocol import LocatePersonal, Reply, Task, Workbench
from pfedul.run.assembly import reseeded
from pfedul.run.callbacks import Callback, Progress
from pfedul.run.opening import first_rows, first_state
from pfedul.run.planted import planted_among
from pfedul.run.run import Run
from pfedul.run.training import train
from pfedul.settings import Settings, fixed, settings_digest, settings_row, write_toml
from pfedul.store.attested import differences_from_chain
from pfedul.store.chain import TRIAL, Attestation
from pfedul.store.ledger import Ledger
from pfedul.store.marker import remove
from pfedul.store.oracles import oracles_folder
from pfedul.store.paths import LEDGER_FILE, REHEARSAL
from pfedul.store.requests import read_requests
from pfedul.store.store import Store
from pfedul.store.tables import cpu_seconds_of, read_members, spent_on_rounds
from pfedul.store.trust import made_by_this_operator

_HEADER = "# Trained on the data of the run around it; it cannot be trained alone.\n"
_COMMITS = 5
"""About this many commits while such a federation trains: it can resume, at little cost."""


@dataclass(frozen=True)
class Recipe:
    """One federation to train: its folder, its seed, and its clients.

    `changes` are settings in which it differs from the run.
    """

    name: str
    folder: Path
    seed: int
    clients: tuple[str, ...]
    record: str
    changes: Mapping[str, Any] = field(default_factory=dict)


def oracle_recipes(run: Run, targets: Sequence[str], count: int) -> list[Recipe]:
    """Oracles 1 to `count`; the same ones whenever the same removal is audited."""
    clients = [client for client in run.clients if client not in targets]
    place = oracles_folder(run.store.path)
    return [
        _recipe(run, f"oracle {number}", place, clients, "none") for number in range(1, count + 1)
    ]


def twin_recipes(run: Run, count: int) -> list[Recipe]:
    """Twins of the run, with all clients."""
    record, place = run.settings.record, run.store.path / REHEARSAL
    return [
        _recipe(run, f"twin {number}", place, run.clients, record) for number in range(1, count + 1)
    ]


def _recipe(run: Run, name: str, place: Path, clients: Sequence[str], record: str) -> Recipe:
    seed = derive_seed(run.settings.seed, "audit", name) % 2**31
    members = {client: run.members[client].data_sha256 for client in clients}
    decides = fixed(_settings(planted_among(run.settings, clients), seed, 0, record))
    key = digest(json.dumps([decides, members], sort_keys=True).encode())[:16]
    return Recipe(name, place / key, seed, tuple(clients), record)


def _settings(settings: Settings, seed: int, rounds: int, record: str) -> Settings:
    return replace(
        settings,
        seed=seed,
        rounds=rounds,
        record=record,
        evaluate_every=0,
        checkpoint_every=max(1, rounds // _COMMITS),
        data_root=None,
        engine="auto",
        workers=None,
    )


def open_recipe(
    run: Run,
    recipe: Recipe,
    progress: Callable[[int], None] | None = None,
    rounds: int | None = None,
) -> Run:
    """The federation of a recipe, trained; `progress` is called for each reply.

    It is trained for as many rounds as the run, or for `rounds`. It is not evaluated, since that
    is not part of the cost of retraining; callers measure accuracies if they need them.
    """
    wanted = run.rounds if rounds is None else rounds
    settings = _settings_of(run, recipe, wanted)
    bench = reseeded(run.bench, recipe.seed, recipe.clients)
    same = settings.clusters == run.settings.clusters
    clusters = run.clusters if same else Clusters(settings.clusters)
    store = (_found if _is_begun(run, recipe) else _made)(recipe, settings, bench, clusters)
    made = Run(store, settings, bench, start=lend(run.engine, recipe.seed))

    try:
        train(made, wanted, _Replies(progress), evaluated=False)
    except BaseException:
        made.close()
        raise
    return made


def _settings_of(run: Run, recipe: Recipe, rounds: int) -> Settings:
    own = planted_among(run.settings, recipe.clients)
    return replace(_settings(own, recipe.seed, rounds, recipe.record), **recipe.changes)


class _Replies(Callback):
    """Counts the replies of all rounds."""

    def __init__(self, progress: Callable[[int], None] | None) -> None:
        self._progress = progress or (lambda _replies: None)

    def on_reply(self, progress: Progress) -> None:
        self._progress((progress.round - 1) * progress.clients + progress.replies)

    on_round = on_reply


class BorrowedEngine:
    """Runs tasks on the lender with another seed; closing it leaves the lender running.

    Workers and data then exist only once, however many federations an audit trains.
    """

    def __init__(self, lender: Engine, seed: int) -> None:
        self.in_process = lender.in_process
        self._lender = lender
        self._seed = seed

    def run(
        self, task: Task, clients: Sequence[str], shared: Tensors, locate_personal: LocatePersonal
    ) -> Generator[Reply, None, None]:
        seed = self._seed if task.seed is None else task.seed
        return self._lender.run(replace(task, seed=seed), clients, shared, locate_personal)

    def close(self) -> None:
        """Nothing to close: the lender is still in use."""


def lend(engine: Engine, seed: int) -> Callable[[Workbench], Engine]:
    """A start function for a federation that uses another federation's engine."""
    return lambda _bench: BorrowedEngine(engine, seed)


def _is_begun(run: Run, recipe: Recipe) -> bool:
    """Whether the federation of a recipe is in its folder, and this operator's own.

    Evidence rests on it, and whoever can write to the run could put another one there.
    """
    if not (recipe.folder / LEDGER_FILE).is_file():
        return False
    with closing(Ledger(recipe.folder / LEDGER_FILE, read_only=True)) as ledger:
        data = {name: member.data_sha256 for name, member in read_members(ledger).items()}
        settings = settings_digest(_settings_of(run, recipe, 0))
        return (
            made_by_this_operator(ledger)
            and not differences_from_chain(ledger)
            and ledger.meta("settings_sha256") == settings
            and data == {name: run.members[name].data_sha256 for name in recipe.clients}
            and not read_requests(ledger)
        )


def _found(recipe: Recipe, *_: object) -> Store:
    return Store.open_unremembered(recipe.folder)


def _made(recipe: Recipe, settings: Settings, bench: Workbench, clusters: Clusters) -> Store:
    """A new federation. Clients stay in their clusters, so clusters can be compared."""
    remove(recipe.folder)
    rows = [*first_rows(bench), settings_row(settings), Attestation(TRIAL)]
    text, tensors = _HEADER + write_toml(settings), first_state(bench, clusters)
    return Store.create(recipe.folder, text, tensors, rows, marked=True)


def replies_left(run: Run, recipes: Collection[Recipe]) -> int:
    """How many client replies are still needed to finish training these federations."""
    share = run.settings.participation
    return sum(
        max(0, run.rounds - rounds_done(run, recipe)) * max(1, round(share * len(recipe.clients)))
        for recipe in recipes
    )


def rounds_done(run: Run, recipe: Recipe) -> int:
    """Committed rounds of a recipe's federation so far."""
    return rounds_in(recipe.folder) if _is_begun(run, recipe) else 0


def rounds_in(folder: Path) -> int:
    """Committed rounds of the federation in a folder; none where there is no federation."""
    if not (folder / LEDGER_FILE).is_file():
        return 0
    with closing(Ledger(folder / LEDGER_FILE, read_only=True)) as ledger:
        return spent_on_rounds(ledger).rounds


def cpu_to_retrain(run: Run, clients: Collection[str]) -> float:
    """CPU seconds of retraining with these clients alone: what they spent on the rounds so far."""
    return cpu_seconds_of(run.store.ledger, clients)
