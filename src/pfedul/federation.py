"""The facade: a federation and its run folder, to create, open, train and evaluate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pfedul.audit.rehearsal import level_of
from pfedul.base.tensors import Tensors
from pfedul.clusters.engine import ClusteredEngine
from pfedul.clusters.layout import Clusters, read_clusters
from pfedul.data import ClientData
from pfedul.engine import Engine, start_engine
from pfedul.errors import PfedulError
from pfedul.evaluation import ClientScore, Evaluation
from pfedul.opening import form_clusters
from pfedul.protocol import OnStage, Refusal, Reply, RoundResult, Task, Workbench
from pfedul.records import record_names
from pfedul.records.base import Keeping
from pfedul.records.recording import RoundRecorder
from pfedul.run.admission import admit
from pfedul.run.assembly import ModelFactory, OwnData, assemble, check_clients, load_data
from pfedul.run.opening import (
    check_same_federation,
    check_same_settings,
    first_rows,
    first_state,
    refuse_remote,
)
from pfedul.run.personal import InRunFolder, PersonalTensors, WithClients
from pfedul.server.checks import Rules, check_figures
from pfedul.server.round import TooFewReplies, choose_clients, run_round
from pfedul.settings import (
    Settings,
    from_mapping,
    merge,
    named,
    read_settings,
    settings_row,
    write_toml,
)
from pfedul.store.audits import Audit
from pfedul.store.copies import clear_notes, sweep
from pfedul.store.folder import absolute, refuse_unusable, require_run, uninterrupted
from pfedul.store.ledger import Statement
from pfedul.store.paths import SHARED_FILE, checkpoint_file, personal_file
from pfedul.store.requests import PENDING, unfinished
from pfedul.store.store import Store
from pfedul.store.tables import Member, evaluation_rows, read_members, refusal_rows, round_rows
from pfedul.unlearn.checks import check_targets
from pfedul.unlearn.methods import METHODS
from pfedul.unlearn.options import ForgetOptions
from pfedul.unlearn.outcome import Outcome
from pfedul.unlearn.pfedul.method import make_plan
from pfedul.unlearn.pfedul.plan import Plan
from pfedul.unlearn.removal import forget, recalibrate_missing
from pfedul.unlearn.scores import exact_scores, score_table


@dataclass(frozen=True)
class Progress:
    """How far training is: `replies` of `clients` have come in for round `round` of `rounds`.

    `loss` is known when the round is whole, `accuracy` if it was then evaluated.
    """

    round: int
    rounds: int
    replies: int
    clients: int
    loss: float | None = None
    accuracy: float | None = None


OnProgress = Callable[[Progress], None]

StartEngine = Callable[[Workbench], Engine]


class Federation:
    """A personalised federation in a run folder. Close it, or use it in a `with` block.

    Make one with `create`, come back to it with `open`.
    """

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

        `start` gives the engine, where that is not the one that the settings name.
        """
        self.settings = settings
        self.bench = bench
        self.known_data: Mapping[str, ClientData] = bench.data
        self.warnings = warnings
        self.store = store
        self._engine = engine
        self._start = start or partial(start_engine, settings.engine, settings.workers)
        self.personal_place: PersonalTensors = (
            InRunFolder(store, bench) if engine is None else WithClients(store)
        )
        self.shared: Tensors = store.read(SHARED_FILE)
        self.members = read_members(store.ledger)
        self.clusters = read_clusters(store, settings.clusters, self.members)
        self.rounds: int = store.ledger.value("SELECT MAX(round) FROM rounds") or 0
        self._use_data_of(self.clients)
        sweep(store.path, self.clients)
        begun = unfinished(store.ledger)
        if begun is None or begun.status != PENDING:  # the targets are in them
            clear_notes(store.path)

    @property
    def clients(self) -> list[str]:
        """Who takes part, by name."""
        return sorted(self.members)

    @classmethod
    def create(
        cls,
        run: str | Path,
        *,
        data: str | OwnData = "digits",
        model: str | ModelFactory = "cnn",
        **settings: Any,
    ) -> Self:
        """A new federation in the folder `run`.

        `data` names a dataset, or is `{client: (train, test)}` with a pair of arrays
        (inputs, labels) or a map-style Dataset for each part. `model` names a model,
        or is a function without arguments that returns an `nn.Module`. The other
        settings are those of `pfedul train`: `personalization="ditto"`, `lr=0.05`, ...
        """
        path = absolute(run)
        refuse_unusable(path)
        own_data = None if isinstance(data, str) else data
        own_model = None if isinstance(model, str) else model
        names = {"data": named(data), "model": named(model)}
        chosen = from_mapping({**names, **settings}, "Federation.create")
        loaded = load_data(chosen, own_data)
        bench = assemble(chosen, loaded, own_model)
        check_clients(chosen, bench.data)
        tensors = first_state(bench, Clusters(chosen.clusters))
        rows = [*first_rows(bench), settings_row(chosen)]
        store = Store.create(path, write_toml(chosen), tensors, rows)
        return cls(store, chosen, bench, loaded.warnings)

    @classmethod
    def open(
        cls,
        run: str | Path,
        *,
        data: OwnData | None = None,
        model: ModelFactory | None = None,
        **later: Any,
    ) -> Self:
        """An existing federation, at its last whole round.

        Data and model that were given in Python are given again. `later` holds
        settings that may change: `engine`, `workers`, `checkpoint_every`, ...
        """
        path = absolute(run)
        require_run(path)
        stored = read_settings(path)
        settings = merge(stored, later)
        store = Store.open(path)
        try:
            refuse_remote(store)
            check_same_settings(store, stored)
            loaded = load_data(settings, data)
            bench = assemble(settings, loaded, model)
            check_same_federation(store, bench, Clusters(settings.clusters))
            if settings != stored:
                store.write_settings(write_toml(settings))
            return cls(store, settings, bench, loaded.warnings)
        except BaseException:
            store.close()
            raise

    def train(
        self,
        rounds: int | None = None,
        progress: OnProgress | None = None,
        evaluated: bool = True,
    ) -> None:
        """Train until the federation has had `rounds` rounds in all; those of its settings if None.

        Everybody is evaluated after the last one, and as often as the settings say, unless
        `evaluated` is false.
        Interrupted, it keeps every round that was finished; called again, it goes on
        to the same tensors, bit for bit, as if it had never stopped.
        """
        self._refuse_while_pending()
        self._remember_rounds(rounds)
        self._form_clusters()
        report = progress or (lambda _: None)
        try:
            while self.rounds < self.settings.rounds:
                self._one_round(report, evaluated)
                if self.rounds % self.settings.checkpoint_every == 0:
                    self.store.commit()
        finally:
            self.store.drop()
            self.store.commit()

    def evaluate(self) -> Evaluation:
        """Each client's accuracy with its personal model on its own test samples, now."""
        evaluation = self.measure()
        self.store.ledger.write(evaluation_rows(evaluation, self.store.commits))
        return evaluation

    def plan(self, *targets: str, **options: Any) -> Plan:
        """What `forget` would do to the shared tensors; nothing is touched."""
        check_targets(self, targets)
        wish = ForgetOptions(**options)
        if not METHODS.parse(wish.method)[0].plans:
            raise PfedulError(
                f"The method '{wish.method}' makes no plan that could be shown; 'pfedul methods' "
                "says what it does, and 'pfedul rehearse' tries it out."
            )
        return make_plan(self, targets, wish)

    def forget(
        self,
        *targets: str,
        away: Sequence[str] = (),
        on_stage: OnStage | None = None,
        **options: Any,
    ) -> Outcome:
        """Forget these clients: correct the shared layers, erase, let the others recalibrate.

        `options` are those of `pfedul forget`: `alpha=0.5`, `correction="reset"`, ...
        Clients in `away` recalibrate later (`recalibrate`). Interrupted, the run has
        the request pending and its tensors untouched; asking again finishes it.
        """
        return forget(self, targets, ForgetOptions(**options), away, on_stage)

    def rehearse(
        self,
        *targets: str,
        level: str = "standard",
        oracles: int | None = None,
        away: Sequence[str] = (),
        on_stage: OnStage | None = None,
        **options: Any,
    ) -> Audit:
        """Forget these clients on a sealed copy and audit that in full; nothing is touched here.

        `options` are those of `forget`, `level` is quick, standard or strict. The result is
        written into the ledger, and holds for a later `forget` with the same hashes.
        """
        # Imported here: attacks take a second to import that others need not wait for.
        from pfedul.audit.rehearsal import Rehearsal, rehearse

        chosen, wish = level_of(level, oracles), ForgetOptions(**options)
        return rehearse(Rehearsal(self, targets, wish, tuple(away), chosen), on_stage)

    def scores(self) -> dict[str, list[float]]:
        """Every client's contribution score on every shared layer (Eq. 6)."""
        return score_table(self)

    def exact_scores(self, *targets: str) -> list[float]:
        """The targets' scores from the exact Fisher of Eq. 4, which reads every client's data."""
        check_targets(self, targets)
        return exact_scores(self, targets)

    def recalibrate(self) -> list[str]:
        """Let clients recalibrate that were away when another was forgotten; returns who did."""
        return recalibrate_missing(self)

    def admit(self, client: str, *, again: bool = False) -> None:
        """Let a client join from the next round on, with personal tensors as they are at the start.

        Its data must be among those that the federation was opened with. A client
        that was forgotten is admitted, as a new one, only if `again` says so.
        """
        admit(self, client, again)

    def personal(self, client: str) -> Tensors:
        """A client's personal tensors."""
        if client not in self.clients:
            raise PfedulError(f"There is no client '{client}' in this federation.")
        if self.personal_place.at_clients:
            raise PfedulError(f"The personal tensors of '{client}' are with the client.")
        path = self.locate_personal(client)
        return {} if path is None else self.store.read(personal_file(client))

    def close(self) -> None:
        """End the workers and let go of the run folder."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # The inside

    @property
    def engine(self) -> Engine:
        """Started when it is first needed."""
        if self._engine is None:
            started = self._start(self.bench)
            several = self.clusters.several
            self._engine = ClusteredEngine(started, lambda: self.clusters) if several else started
        return self._engine

    def _form_clusters(self) -> None:
        """Once, before the first round."""
        if not self.clusters.several or self.clusters.assigned or not self.settings.rounds:
            return
        self.clusters = form_clusters(self)
        for name, tensors in self.clusters.files(self.clients).items():
            self.store.stage(name, tensors)
        self.store.keep([])
        self.store.commit()

    def _refuse_while_pending(self) -> None:
        begun = unfinished(self.store.ledger)
        if begun is not None:
            raise PfedulError(
                f"Request {begun.number} to forget {', '.join(begun.targets)} is not finished; "
                "finish it by asking for it again, then train on."
            )

    def _remember_rounds(self, rounds: int | None) -> None:
        if rounds is not None and rounds > self.rounds and rounds != self.settings.rounds:
            self.settings = replace(self.settings, rounds=rounds)
            self.store.write_settings(write_toml(self.settings))

    def _one_round(self, report: OnProgress, evaluated: bool) -> None:
        number = self.rounds + 1
        asked = self.settings.rounds
        clients = self.choose(number)
        result = self.play_round(
            clients, lambda done: report(Progress(number, asked, done, len(clients)))
        )
        accuracy = self._evaluate_if_due(number) if evaluated else None
        replies = len(result.accepted)
        report(Progress(number, asked, replies, len(clients), result.loss, accuracy))

    def choose(self, number: int) -> list[str]:
        """Who takes part in a round: of each cluster its share."""
        share, seed = self.settings.participation, self.settings.seed
        groups = self.clusters.groups(self.clients).values()
        return sorted(c for group in groups for c in choose_clients(group, share, seed, number))

    def play_round(
        self,
        clients: Sequence[str],
        on_reply: Callable[[int], None],
        epochs: int | None = None,
        request: int | None = None,
        also: Sequence[Statement] = (),
        steps: int | None = None,
    ) -> RoundResult:
        """The next round with these clients, whole but not yet committed.

        `epochs` and `steps` shorten the local training (see `Task`).
        `request` names the removal that the round repairs, if it is not an ordinary one,
        and `also` are further rows of its commit.
        """
        started, number = time.perf_counter(), self.rounds + 1
        recorder = self._recorder(number)
        replies = 0

        def keep(reply: Reply) -> None:
            nonlocal replies
            replies += 1
            self.personal_place.stage(reply)
            recorder.add(reply)
            on_reply(replies)

        result = self.compute_round(number, clients, keep, epochs, steps)
        recorder.finish(result.shared)
        self._stage_checkpoints(result)
        sha256 = self.store.stage(SHARED_FILE, result.shared)
        cost = {
            "seconds": time.perf_counter() - started,
            "record_seconds": recorder.seconds,
        }
        with uninterrupted():
            self.store.keep([*round_rows(result, sha256, request, cost), *also])
            self.shared, self.rounds = result.shared, number
        return result

    def _recorder(self, number: int) -> RoundRecorder:
        keeping = Keeping(self.store, self.settings, self.bench.split)
        return RoundRecorder(keeping, record_names(self.settings.record), number, self.shared)

    def compute_round(
        self,
        number: int,
        clients: Sequence[str],
        keep: Callable[[Reply], None],
        epochs: int | None = None,
        steps: int | None = None,
    ) -> RoundResult:
        """What a round with these clients makes, one cluster after the other; nothing is staged."""
        rules, whole = self.rules(), RoundResult(number, self.shared)
        needed = rules.min_replies
        if self.clusters.several:
            rules = replace(rules, min_replies=1)
        try:
            for cluster, group in self.clusters.groups(clients).items():
                part = run_round(
                    *(self.engine, number, group, self.clusters.view(self.shared, cluster)),
                    *(self.locate_personal, rules, keep),
                    epochs=epochs,
                    steps=steps,
                )
                whole = self._with_part(whole, cluster, part)
            if len(whole.accepted) < needed:
                raise TooFewReplies(number, len(clients), whole.refused, needed)
            return whole
        except TooFewReplies as error:
            self.store.ledger.write(refusal_rows(number, error.refused))
            raise

    def _with_part(self, whole: RoundResult, cluster: int, part: RoundResult) -> RoundResult:
        return RoundResult(
            whole.number,
            self.clusters.put(whole.shared, cluster, part.shared),
            whole.accepted + part.accepted,
            whole.refused + part.refused,
        )

    def _stage_checkpoints(self, result: RoundResult) -> None:
        """Shared tensors of clusters as they are before a member takes part for the first time.

        Where everybody takes part in every round these are the initial tensors.
        """
        if not self.clusters.several or self.settings.participation == 1 or result.number == 1:
            return
        known = {row["client"] for row in self.store.ledger.rows("SELECT client FROM replies")}
        new = [reply.client for reply in result.accepted if reply.client not in known]
        for cluster in self.clusters.groups(new):
            own = self.clusters.view(self.shared, cluster)
            self.store.stage(checkpoint_file(cluster, result.number), own)

    def leave(self, targets: Sequence[str], shared: Tensors) -> None:
        """Go on without these clients; their data leave this process and its workers."""
        self.shared = shared
        self.members = {n: m for n, m in self.members.items() if n not in targets}
        self.clusters = read_clusters(self.store, self.settings.clusters, self.members)
        self.known_data = {n: d for n, d in self.known_data.items() if n not in targets}
        self._use_data_of(self.clients)
        sweep(self.store.path, self.clients)

    def welcome(self, member: Member) -> None:
        """Go on with one more client."""
        self.members = {**self.members, member.client: member}
        self._use_data_of(self.clients)

    def _use_data_of(self, clients: Sequence[str]) -> None:
        if self.personal_place.at_clients:
            return
        data = {name: self.known_data[name] for name in clients}
        self.bench = replace(self.bench, data=data)
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def rules(self) -> Rules:
        place = self.personal_place
        return Rules(
            shared=self.clusters.view(self.shared, 1),
            personal=place.layout(self.clients),
            parameters=frozenset(self.bench.split.parameter_names),
            samples={name: member.train_samples for name, member in self.members.items()},
            held=place.at_clients and bool(self.bench.split.personal),
            max_update_norm=self.settings.max_update_norm,
            min_replies=self.settings.min_replies,
        )

    def _evaluate_if_due(self, number: int) -> float | None:
        every = self.settings.evaluate_every
        if number != self.settings.rounds and (every == 0 or number % every):
            return None
        evaluation = self.measure()
        self.store.keep(evaluation_rows(evaluation, self.store.commits + 1))
        return evaluation.mean

    def measure(self, clients: Sequence[str] | None = None) -> Evaluation:
        """Evaluate (some of) the clients; only refused replies are written down."""
        task = Task("evaluate", self.rounds)
        asked = self.clients if clients is None else clients
        with closing(self.engine.run(task, asked, self.shared, self.locate_personal)) as replies:
            scores = self.sound_scores(zip(asked, replies, strict=True))
        if not scores:
            raise PfedulError(f"None of {', '.join(asked)} answered; see 'pfedul status'.")
        return Evaluation(self.rounds, scores)

    def sound_scores(self, replies: Iterable[tuple[str, Reply]]) -> dict[str, ClientScore]:
        """The figures of replies that are what they should be; the others are refused."""
        scores, refused = {}, []
        for client, reply in replies:
            reason = check_figures(reply, client, self.members[client].test_samples)
            if reason is None:
                scores[client] = _score(reply)
            else:
                refused.append(Refusal(client, reason))
        if refused:
            self.store.ledger.write(refusal_rows(self.rounds, refused))
        return scores

    def locate_personal(self, client: str) -> Path | None:
        return self.personal_place.locate(client)


def _score(reply: Reply) -> ClientScore:
    return ClientScore(reply.metrics["accuracy"], reply.metrics["loss"], reply.samples)
