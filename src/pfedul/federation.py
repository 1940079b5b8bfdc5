"""The facade: a federation and its run folder, to create, open, train and evaluate."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pfedul.assembly import ModelFactory, OwnData, assemble, load_data
from pfedul.client import Reply, Task, Workbench
from pfedul.data import FederatedData, fingerprint
from pfedul.engine import Engine, start_engine
from pfedul.errors import PfedulError
from pfedul.evaluation import ClientScore, Evaluation
from pfedul.ledger import Statement, insert
from pfedul.server import Refusal, RoundResult, Rules, TooFewReplies, choose_clients, run_round
from pfedul.settings import OWN, Settings, from_mapping, merge, read_toml, write_toml
from pfedul.store import (
    INIT_FILE,
    SETTINGS_FILE,
    SHARED_FILE,
    Store,
    personal_file,
    refuse_unusable,
    require_run,
    uninterrupted,
)
from pfedul.tensors import Tensors, read_tensors
from pfedul.version import __version__


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


class Federation:
    """A personalised federation in a run folder. Close it, or use it in a `with` block.

    Make one with `create`, come back to it with `open`.
    """

    def __init__(
        self, store: Store, settings: Settings, bench: Workbench, warnings: tuple[str, ...]
    ) -> None:
        self.settings = settings
        self.bench = bench
        self.warnings = warnings
        self._store = store
        self._engine: Engine | None = None
        self.shared: Tensors = store.read(SHARED_FILE)
        self.clients: list[str] = [
            row["client"]
            for row in store.ledger.rows(
                "SELECT client FROM clients WHERE status = 'active' ORDER BY client"
            )
        ]
        self.rounds: int = store.ledger.value("SELECT MAX(round) FROM rounds") or 0

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
        refuse_unusable(Path(run))
        own_data = None if isinstance(data, str) else data
        own_model = None if isinstance(model, str) else model
        names = {
            "data": data if isinstance(data, str) else OWN,
            "model": model if isinstance(model, str) else OWN,
        }
        chosen = from_mapping({**names, **settings}, "Federation.create")
        loaded = load_data(chosen, own_data)
        bench = assemble(chosen, loaded, own_model)
        tensors, rows = _first_state(bench), _first_rows(loaded)
        store = Store.create(Path(run), write_toml(chosen), tensors, rows)
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
        path = Path(run)
        require_run(path)
        stored = read_settings(path)
        settings = merge(stored, later)
        store = Store.open(path)
        try:
            loaded = load_data(settings, data)
            bench = assemble(settings, loaded, model)
            _check_same_federation(store, bench, loaded)
            if settings != stored:
                store.write_settings(write_toml(settings))
            return cls(store, settings, bench, loaded.warnings)
        except BaseException:
            store.close()
            raise

    def train(self, rounds: int | None = None, progress: OnProgress | None = None) -> None:
        """Train until the federation has had `rounds` rounds in all; those of its settings if None.

        Interrupted, it keeps every round that was finished; called again, it goes on
        to the same tensors, bit for bit, as if it had never stopped.
        """
        self._remember_rounds(rounds)
        report = progress or (lambda _: None)
        while self.rounds < self.settings.rounds:
            try:
                self._one_round(self.rounds + 1, report)
            except (PfedulError, KeyboardInterrupt):
                self._store.drop_round()
                self._store.commit(self.rounds)
                raise
            if self.rounds % self.settings.checkpoint_every == 0:
                self._store.commit(self.rounds)
        self._store.commit(self.rounds)

    def evaluate(self) -> Evaluation:
        """Each client's accuracy with its personal model on its own test samples, now."""
        evaluation = self._evaluate()
        self._store.ledger.write(_evaluation_rows(evaluation))
        return evaluation

    def personal(self, client: str) -> Tensors:
        """A client's personal tensors."""
        if client not in self.clients:
            raise PfedulError(f"There is no client '{client}' in this federation.")
        path = self._locate_personal(client)
        return {} if path is None else self._store.read(personal_file(client))

    def close(self) -> None:
        """End the workers and let go of the run folder."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None
        self._store.close()

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
            self._engine = start_engine(self.settings.engine, self.settings.workers, self.bench)
        return self._engine

    def _remember_rounds(self, rounds: int | None) -> None:
        if rounds is not None and rounds != self.settings.rounds:
            self.settings = replace(self.settings, rounds=rounds)
            self._store.write_settings(write_toml(self.settings))

    def _one_round(self, number: int, report: OnProgress) -> None:
        started = time.perf_counter()
        seed, share = self.settings.seed, self.settings.participation
        clients = choose_clients(self.clients, share, seed, number)
        digests: dict[str, str] = {}
        replies = 0

        def keep(reply: Reply) -> None:
            nonlocal replies
            replies += 1
            if reply.personal:
                name = personal_file(reply.client)
                digests[name] = self._store.stage(name, reply.personal)
            report(Progress(number, self.settings.rounds, replies, len(clients)))

        result = self._run_round(number, clients, keep)
        digests[SHARED_FILE] = self._store.stage(SHARED_FILE, result.shared)
        rows = _round_rows(result, time.perf_counter() - started, digests[SHARED_FILE])
        with uninterrupted():
            self._store.keep_round(rows, digests)
            self.shared, self.rounds = result.shared, number
        accuracy = self._evaluate_if_due(number)
        report(Progress(number, self.settings.rounds, replies, len(clients), result.loss, accuracy))

    def _run_round(
        self, number: int, clients: list[str], keep: Callable[[Reply], None]
    ) -> RoundResult:
        try:
            return run_round(
                *(self.engine, number, clients, self.shared),
                *(self._locate_personal, self._rules(), keep),
            )
        except TooFewReplies as error:
            self._store.ledger.write(_refusal_rows(number, error.refused))
            raise

    def _rules(self) -> Rules:
        personal = {} if not self.bench.split.personal else self._personal_layout
        return Rules(
            shared=self.shared,
            personal=personal,
            parameters=frozenset(self.bench.split.parameter_names),
            samples={client: len(self.bench.data[client].train) for client in self.clients},
            max_update_norm=self.settings.max_update_norm,
            min_replies=self.settings.min_replies,
        )

    @property
    def _personal_layout(self) -> Tensors:
        return self._store.read(personal_file(self.clients[0]))

    def _evaluate_if_due(self, number: int) -> float | None:
        every = self.settings.evaluate_every
        if number != self.settings.rounds and (every == 0 or number % every):
            return None
        evaluation = self._evaluate()
        self._store.keep_round(_evaluation_rows(evaluation), {})
        return evaluation.mean

    def _evaluate(self) -> Evaluation:
        task = Task("evaluate", self.rounds)
        with closing(
            self.engine.run(task, self.clients, self.shared, self._locate_personal)
        ) as replies:
            scores = {reply.client: _score(reply) for reply in replies}
        return Evaluation(self.rounds, scores)

    def _locate_personal(self, client: str) -> Path | None:
        if not self.bench.split.personal:
            return None
        return self._store.locate(personal_file(client))


def read_settings(path: Path) -> Settings:
    """The settings of the run in this folder."""
    file = path / SETTINGS_FILE
    return from_mapping(read_toml(file), str(file))


def _score(reply: Reply) -> ClientScore:
    return ClientScore(reply.metrics["accuracy"], reply.metrics["loss"], reply.samples)


def _first_state(bench: Workbench) -> dict[str, Tensors]:
    model = bench.build_model()
    shared = read_tensors(model, bench.split.shared)
    files = {INIT_FILE: shared, SHARED_FILE: shared}
    if bench.split.personal:
        personal = read_tensors(model, bench.split.personal)
        files |= {personal_file(client): personal for client in bench.data}
    return files


def _first_rows(data: FederatedData) -> list[Statement]:
    rows = [
        insert("meta", key="created_at", value=_now()),
        insert("meta", key="pfedul", value=__version__),
    ]
    for client, parts in data.clients.items():
        sizes = {"train_samples": len(parts.train), "test_samples": len(parts.test)}
        sha256 = fingerprint(parts)
        rows.append(insert("clients", client=client, data_sha256=sha256, joined_round=0, **sizes))
    return rows


def _check_same_federation(store: Store, bench: Workbench, data: FederatedData) -> None:
    """Going on with other data or another model would be another run."""
    for row in store.ledger.rows("SELECT * FROM clients WHERE status = 'active'"):
        parts = data.clients.get(row["client"])
        if parts is None or fingerprint(parts) != row["data_sha256"]:
            raise PfedulError(
                f"The data of client '{row['client']}' are not those that this run was made with; "
                "give the same data, or start another run."
            )
    shared = store.read(SHARED_FILE)
    model = bench.build_model().state_dict()
    for name in shared.keys() | set(bench.split.shared):
        if name not in shared or name not in model or shared[name].shape != model[name].shape:
            raise PfedulError(
                f"The model is not the one that this run was made with (tensor '{name}'); "
                "give the same model, or start another run."
            )


def _round_rows(result: RoundResult, seconds: float, sha256: str) -> list[Statement]:
    accepted = result.accepted
    rows = [
        insert(
            "rounds",
            round=result.number,
            finished_at=_now(),
            replies=len(accepted),
            samples=sum(reply.samples for reply in accepted),
            loss=result.loss,
            seconds=seconds,
            cpu_seconds=sum(reply.cpu_seconds for reply in accepted),
            shared_sha256=sha256,
        )
    ]
    rows += [
        insert(
            "replies",
            round=result.number,
            client=reply.client,
            samples=reply.samples,
            loss=reply.loss,
            update_norm=reply.update_norm,
            cpu_seconds=reply.cpu_seconds,
        )
        for reply in accepted
    ]
    return rows + _refusal_rows(result.number, result.refused)


def _refusal_rows(number: int, refused: list[Refusal] | tuple[Refusal, ...]) -> list[Statement]:
    return [
        insert("refusals", round=number, client=item.client, reason=item.reason, at=_now())
        for item in refused
    ]


def _evaluation_rows(evaluation: Evaluation) -> list[Statement]:
    return [
        insert(
            "evaluations",
            round=evaluation.round,
            client=client,
            accuracy=score.accuracy,
            loss=score.loss,
            samples=score.samples,
        )
        for client, score in evaluation.clients.items()
    ]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
