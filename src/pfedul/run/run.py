"""An open run: its store, settings, clients and shared tensors, and the one door to its clients.

`Run` is what training, unlearning methods, audits and comparisons work on. Users get a
`Federation`, which is a run with public verbs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

from pfedul.aggregation import AGGREGATIONS
from pfedul.aggregation.base import Aggregate
from pfedul.base.tensors import Tensors, norm
from pfedul.clusters.layout import ClusteredEngine, read_clusters
from pfedul.data.samples import ClientData
from pfedul.engine import start_engine
from pfedul.errors import PfedulError
from pfedul.evaluation import ClientScore, Evaluation
from pfedul.protocol import (
    Accepted,
    Check,
    Engine,
    OnRefusal,
    OnReply,
    Refusal,
    Reply,
    RoundResult,
    Task,
    Workbench,
)
from pfedul.run.personal import InRunFolder, WithClients
from pfedul.run.planted import planted_among
from pfedul.run.privacy import noisy_mean
from pfedul.server.checks import Rules, check_figures
from pfedul.server.round import Ask, ask_clients
from pfedul.server.shortening import allowed_length
from pfedul.settings import Settings, settings_row, write_toml
from pfedul.store.copies import clear_notes, sweep
from pfedul.store.paths import SHARED_FILE, personal_file
from pfedul.store.requests import PENDING, forgotten, unfinished
from pfedul.store.store import Store
from pfedul.store.tables import (
    Member,
    last_round,
    latest,
    read_members,
    recent_lengths,
    refusal_rows,
)

StartEngine = Callable[[Workbench], Engine]


class Run:
    """A run that is open. Close it, or use it in a `with` block."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        bench: Workbench,
        warnings: tuple[str, ...] = (),
        engine: Engine | None = None,
        start: StartEngine | None = None,
    ) -> None:
        """`engine`: one whose clients are elsewhere, with their data and personal tensors.

        `start` makes the engine, where that is not the one that the settings name.
        """
        self.settings = settings
        self.bench = bench
        self.known_data: Mapping[str, ClientData] = bench.data
        self.warnings = warnings
        self.store = store
        self._engine = engine
        self._start = start or self._usual_engine
        self.personal_place = InRunFolder(store, bench) if engine is None else WithClients(store)
        self.shared: Tensors = store.read(SHARED_FILE)
        self.members = read_members(store.ledger)
        self.clusters = read_clusters(store, settings.clusters, self.members)
        self.rounds = last_round(store.ledger)
        self.lengths = recent_lengths(store.ledger)
        self._use_data_of(self.clients)
        if not store.read_only:
            self._clear_leftovers()

    def _clear_leftovers(self) -> None:
        """Remove copies and notes that a killed process left and nothing can use."""
        sweep(self.store.path, self.clients)
        self._leave_backdoor(set(forgotten(self.store.ledger)))
        request = unfinished(self.store.ledger)
        if request is None or request.status != PENDING:  # the targets are in them
            clear_notes(self.store.path)

    @property
    def clients(self) -> list[str]:
        """Who takes part, by name."""
        return sorted(self.members)

    @property
    def engine(self) -> Engine:
        """Started when it is first needed."""
        if self._engine is None:
            engine = self._start(self.bench)
            several = self.clusters.several
            self._engine = ClusteredEngine(engine, lambda: self.clusters) if several else engine
        return self._engine

    def _usual_engine(self, bench: Workbench) -> Engine:
        """The one that the settings name."""
        left = self.settings.rounds - self.rounds
        return start_engine(self.settings.engine, self.settings.workers, bench, left)

    # Asking clients

    def ask(
        self,
        task: Task,
        clients: Sequence[str],
        shared: Tensors,
        check: Check,
        *,
        on_reply: OnReply | None = None,
        on_refusal: OnRefusal | None = None,
    ) -> Generator[Reply, None, None]:
        """See `ask_clients`; everything that is asked of clients passes here.

        `check` returns the reason to refuse a reply. A refusal is written into the ledger,
        unless `on_refusal` is given.
        """
        self.store.ledger.require_open()
        return ask_clients(
            self.engine,
            self.locate_personal,
            task,
            clients,
            shared,
            check,
            on_reply=on_reply,
            on_refusal=on_refusal or self.note_refusal,
        )

    def note_refusal(self, refusal: Refusal) -> None:
        """Write a refusal into the ledger at once, unless the run is only read."""
        if not self.store.read_only:
            self.store.ledger.write(refusal_rows(self.rounds, [refusal]))

    def cpu_elsewhere(self, reply: Reply | Accepted) -> float:
        """CPU seconds that a reply cost in other processes."""
        return 0.0 if self.engine.in_process else reply.cpu_seconds

    def measure(self, clients: Sequence[str] | None = None) -> Evaluation:
        """Evaluate (some of) the clients; only refusals are written into the ledger."""
        group = self.clients if clients is None else clients
        scores = self.scores_of(group, self.shared)
        if not scores:
            raise PfedulError(f"None of {', '.join(group)} answered; see 'pfedul status'.")
        return Evaluation(self.rounds, scores)

    def scores_of(
        self, clients: Sequence[str], shared: Tensors, ask: Ask | None = None
    ) -> dict[str, ClientScore]:
        """Figures of clients with their newest personal tensors, on their own test samples."""

        def check(reply: Reply, client: str) -> str | None:
            return check_figures(reply, client, self.members[client].test_samples)

        replies = (ask or self.ask)(Task("evaluate", self.rounds), clients, shared, check)
        return {reply.client: _score(reply) for reply in replies}

    def rules(self) -> Rules:
        """What a reply of a round must look like."""
        place, private = self.personal_place, self.settings.dp_clip is not None
        return Rules(
            shared=self.clusters.view(self.shared, 1),
            personal=place.layout(self.clients),
            parameters=frozenset(self.bench.split.parameter_names),
            samples={name: member.train_samples for name, member in self.members.items()},
            held=place.at_clients and bool(self.bench.split.personal),
            max_update_norm=self.settings.max_update_norm,
            min_replies=0 if private else self.settings.min_replies,
            limit=self.longest_update(),
            weighing=self.settings.weighing,
            start=self._aggregate(),
        )

    def _aggregate(self) -> Callable[[Tensors], Aggregate]:
        """What begins the aggregate of the next round."""
        settings, split = self.settings, self.bench.split
        if settings.dp_clip is not None:
            number = self.rounds + 1
            return noisy_mean(self.store, settings, split, self.members, self.shared, number)
        entry, options = AGGREGATIONS.parse(settings.aggregation)
        return partial(entry.start, options)

    def longest_update(self) -> float | None:
        """The length to which updates of the next round are shortened; None: any is taken."""
        multiple = self.settings.clip_updates
        if self.settings.dp_clip is not None or not multiple:
            return self.settings.dp_clip
        view = self.clusters.view(self.shared, 1)
        size = norm({name: view[name] for name in self.bench.split.parameters})
        return allowed_length(multiple, [x for one in self.lengths.values() for x in one], size)

    def remember(self, result: RoundResult) -> None:
        """Continue from a round."""
        self.shared, self.rounds = result.shared, result.number
        lengths = {result.number: [reply.update_norm for reply in result.accepted]}
        self.lengths = latest(self.lengths | lengths)

    # Personal tensors

    def personal(self, client: str) -> Tensors:
        """A client's personal tensors."""
        self.store.ledger.require_open()
        if client not in self.clients:
            raise PfedulError(f"There is no client '{client}' in this federation.")
        if self.personal_place.at_clients:
            raise PfedulError(f"The personal tensors of '{client}' are with the client.")
        path = self.locate_personal(client)
        return {} if path is None else self.store.read(personal_file(client))

    def locate_personal(self, client: str) -> Path | None:
        """The file of a client's personal tensors, or of their hash; None where there is none."""
        return self.personal_place.locate(client)

    # Who takes part

    def leave(self, targets: Sequence[str], shared: Tensors) -> None:
        """Continue without these clients; this process and its workers drop their data."""
        self.shared = shared
        self.lengths = {}
        self.members = {n: m for n, m in self.members.items() if n not in targets}
        self.clusters = read_clusters(self.store, self.settings.clusters, self.members)
        self.known_data = {n: d for n, d in self.known_data.items() if n not in targets}
        self._use_data_of(self.clients)
        sweep(self.store.path, self.clients)
        self._leave_backdoor(targets)

    def _leave_backdoor(self, gone: Collection[str]) -> None:
        """The setting that names a client that was forgotten goes with it."""
        settings = planted_among(self.settings, self.clients)
        if settings != self.settings and planted_among(self.settings, gone) == self.settings:
            self.settings = settings
            self.store.write_settings(write_toml(settings), [settings_row(settings)])

    def join(self, member: Member) -> None:
        """Continue with one more client."""
        self.members = {**self.members, member.client: member}
        self._use_data_of(self.clients)

    def _use_data_of(self, clients: Sequence[str]) -> None:
        if self.personal_place.at_clients:
            return
        data = {name: self.known_data[name] for name in clients}
        self.bench = replace(self.bench, data=data)
        self._end_engine()

    def _end_engine(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    # The end

    def close(self) -> None:
        """End the workers and release the run folder."""
        self._end_engine()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        with closing(self):
            self.store.check_unchanged()


def _score(reply: Reply) -> ClientScore:
    return ClientScore(reply.metrics["accuracy"], reply.metrics["loss"], reply.samples)
