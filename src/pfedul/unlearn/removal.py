"""Forgetting on a run: Algorithm 1, with erasure and the ledger around it.

A removal is one commit. Killed before it, the request is pending and no tensor
has been touched; killed after it, nothing of the targets is left. Asking again
finishes what was begun. It is deterministic: the same request on the same
tensors ends with the same bits.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pfedul.base.tensorfile import digest
from pfedul.base.tensors import Tensors, norm
from pfedul.base.threads import one_thread
from pfedul.clusters.layout import doomed_cluster_files
from pfedul.errors import Hindrance, MethodFailed, PfedulError
from pfedul.personalization import Recalibration
from pfedul.personalization.recalibration import shared_statistics
from pfedul.protocol import MEASURING, MEASURING_CPU, OnStage, Refusal, Reply, Task
from pfedul.records import RECORDS
from pfedul.records.base import Erasure
from pfedul.server.checks import check_personal
from pfedul.server.mean import StreamingMean
from pfedul.store import requests as ledger_of
from pfedul.store.copies import clear_notes, doomed_folders
from pfedul.store.folder import uninterrupted
from pfedul.store.paths import INIT_FILE, REPORTS, SHARED_FILE, held_file, personal_file
from pfedul.store.requests import Request
from pfedul.store.tables import now, refusal_rows
from pfedul.unlearn.base import Method, Result
from pfedul.unlearn.checks import check_away, check_method, check_targets
from pfedul.unlearn.context import Work
from pfedul.unlearn.methods import METHODS
from pfedul.unlearn.notebook import Notebook
from pfedul.unlearn.options import ForgetOptions
from pfedul.unlearn.outcome import ERASURE, EVALUATION, Costs, Outcome, added

if TYPE_CHECKING:
    from pfedul.federation import Federation


@dataclass
class Removal:
    """A request on its way through the stages; `silent` clients did not answer."""

    federation: Federation
    request: Request
    options: ForgetOptions
    away: tuple[str, ...]
    costs: Costs
    on_stage: OnStage
    notes: tuple[str, ...] = ()
    silent: set[str] = field(default_factory=set)

    @property
    def targets(self) -> tuple[str, ...]:
        return self.request.targets

    @property
    def remaining(self) -> list[str]:
        return [client for client in self.federation.clients if client not in self.targets]

    @property
    def recalibrating(self) -> list[str]:
        """Those who stay and are there."""
        return [client for client in self.remaining if client not in self.away]


def forget(
    federation: Federation,
    targets: Sequence[str],
    options: ForgetOptions,
    away: Sequence[str] = (),
    on_stage: OnStage | None = None,
) -> Outcome:
    """Honour a removal request; see `Federation.forget`."""
    chosen = tuple(dict.fromkeys(targets))
    begun = ledger_of.unfinished(federation.store.ledger)
    repairing = begun is not None and begun.status == ledger_of.REPAIRING
    if not (repairing and begun is not None and set(begun.targets) == set(chosen)):
        check_targets(federation, chosen)
    if not repairing:
        check_method(federation, chosen, options, away)
    away = check_away(federation, chosen, away)
    changed = ledger_of.changed_options(begun, options)
    request = ledger_of.file_request(federation.store.ledger, chosen, options)
    tell = on_stage or (lambda _stage, _done, _of: None)
    removal = Removal(federation, request, options, tuple(away), Costs(), tell, changed)
    _ = federation.engine  # started before anything is measured
    try:
        if request.status == ledger_of.PENDING:
            _remove(removal)
    except BaseException as error:
        federation.store.roll_back()
        if isinstance(error, PfedulError) and not isinstance(error, Hindrance):
            clear_notes(federation.store.path)
            ledger_of.withdraw(federation.store.ledger, request)
        raise
    return _repair(removal)


def _remove(removal: Removal) -> None:
    """Stages 1 to 3 and the erasure, as one commit."""
    federation = removal.federation
    before = _known_accuracies(removal) or _accuracies(removal, federation.shared)
    result, work = _unlearn(removal)
    for client, personal in result.personal.items():
        federation.store.stage(personal_file(client), personal)
    if result.initial is not None:
        federation.store.stage(INIT_FILE, result.initial)
    federation.store.keep([])  # what clients recalibrate is the new personal part
    shared, missing, measured = _recalibrate(removal, result.shared)
    digests = _digest_of_shared(federation), federation.store.stage(SHARED_FILE, shared)
    erased = _erase(removal)
    after = measured | _accuracies(removal, shared, leave_out=measured)
    _refuse_ruin(removal, before, after)
    both = [client for client in before if client in after]
    outcome = Outcome(
        request=removal.request.number,
        targets=removal.targets,
        options=removal.options.as_json(),
        asked_at=removal.request.asked_at,
        finished_at=now(),
        plan=_plan_of(removal, result),
        erased=erased,
        before={client: before[client] for client in both},
        after={client: after[client] for client in both},
        stages=removal.costs.stages,
        rounds=work.counts.rounds,
        bytes_broadcast=work.counts.bytes_broadcast + _broadcast_size(removal, shared, missing),
        bytes_uploaded=work.counts.bytes_uploaded,
        shared_sha256_before=digests[0],
        shared_sha256_after=digests[1],
        not_recalibrated=(*missing, *removal.away) if removal.options.recalibration() else (),
        notes=(*removal.notes, *result.notes),
        state_sha256_after=federation.store.state_digest(),
    )
    _commit(removal, outcome, shared)


def _refuse_ruin(removal: Removal, before: Mapping[str, float], after: Mapping[str, float]) -> None:
    """Divergence need not show in the tensors: large values overflow when they are used."""
    asked = set(removal.remaining) - removal.silent
    if before and asked and not after:
        name = METHODS.parse(removal.options.method)[0].name
        raise MethodFailed(
            f"The method '{name}' diverged: no remaining client has figures that are finite with "
            "its result. The run is as it was; try smaller steps, or another method."
        )


def _plan_of(removal: Removal, result: Result) -> dict[str, Any]:
    """What is known of the layers: pFedUL's plan, else how far each of them moved."""
    if result.plan is not None:
        return result.plan.as_json()
    return moved_layers(removal, result.shared)


def moved_layers(removal: Removal, after: Tensors) -> dict[str, Any]:
    """How far each shared layer moved, in the form of a plan without scores."""
    federation = removal.federation
    rows = []
    for layer in federation.bench.split.layers:
        before = {n: federation.shared[n] for n in federation.clusters.names(layer.tensors)}
        change = norm({name: after[name] - tensor for name, tensor in before.items()})
        size = norm(before)
        rows.append(
            {
                "name": layer.name,
                "tensors": list(layer.tensors),
                "parameters": layer.parameters,
                "score": None,
                "selected": change > 0,
                "relative_change": change / size if size else None,
                "at_bound": None,
            }
        )
    method = removal.options.method
    return {
        "target": list(removal.targets),
        "threshold": None,
        "layers": rows,
        "correction": method,
        "notes": [],
    }


def _broadcast_size(removal: Removal, shared: Tensors, missing: Sequence[str]) -> int:
    """The corrected tensors go once to each client; those without an answer are not counted."""
    if removal.options.recalibration() is None:
        return 0
    size = removal.federation.clusters.served_bytes(shared)
    return size * (len(removal.recalibrating) - len(missing))


def _digest_of_shared(federation: Federation) -> str:
    sql = "SELECT sha256 FROM files WHERE path = ?"
    return str(federation.store.ledger.value(sql, SHARED_FILE))


def work_of(removal: Removal) -> Work:
    """The request as its method sees it."""
    federation = removal.federation
    return Work(
        federation,
        removal.targets,
        tuple(removal.remaining),
        removal.options,
        removal.request.number,
        Notebook(federation.store.path, _key(removal)),
        removal.on_stage,
        away=removal.away,
    )


def _key(removal: Removal) -> str:
    """Stands for all that decides what a method does: notes of another request are not used.

    Nor are those of the same request when others were away.
    """
    decides = [
        *(removal.request.number, removal.targets, removal.options.as_json()),
        sorted(removal.away),
    ]
    words = json.dumps([*decides, _digest_of_shared(removal.federation)])
    return digest(words.encode())[:16]


def _unlearn(removal: Removal) -> tuple[Result, Work]:
    """What the method makes of the shared tensors."""
    method, own = METHODS.parse(removal.options.method)
    work = work_of(removal)
    stage = "plan" if method.plans else "unlearning"
    removal.on_stage(stage, 0, 1)
    # One thread, as at clients: with more of them the last bits of sums depend on their number.
    with one_thread():
        result = method.unlearn(work, own)
        shared = _with_counters(work, method, result.shared)
        result = replace(result, shared=shared, notes=(*result.notes, *work.left_out()))
    removal.costs.stages[stage] = work.meter.spent()
    removal.on_stage(stage, 1, 1)
    return result, work


def _with_counters(work: Work, method: Method, shared: Tensors) -> Tensors:
    """Integer tensors are counters of ordinary training: unlearning leaves them as they are."""
    work.finite(shared)
    if method.starts_over:
        return shared
    counters = {name: t for name, t in work.shared.items() if not t.is_floating_point()}
    return {**shared, **counters}


def _recalibrate(
    removal: Removal, corrected: Tensors
) -> tuple[Tensors, list[str], dict[str, float]]:
    """Stage 3: one broadcast, then local work. Returns shared tensors, who failed, accuracies.

    Shared tensors come back unchanged but for normalisation statistics that the
    correction made stale: those are the mean of what the clients re-estimated, and
    accuracies are then not known before that mean is.
    """
    how = removal.options.recalibration()
    if how is None:
        return corrected, [], {}
    missing: list[str] = []
    measured: dict[str, float] = {}
    statistics: StreamingMean | None = None
    wanted = _statistics(removal.federation, how)
    task = Task(
        *("recalibrate", removal.request.number),
        recalibration=how,
        measured=True,
        seed=removal.options.seed,
    )
    beside = Beside()
    replies = _ask(removal, "recalibration", task, removal.recalibrating, corrected)
    for client, reply in zip(removal.recalibrating, replies, strict=True):
        beside.add(reply)
        if not _accept(removal.federation, reply, client, wanted):
            missing.append(client)
        elif reply.shared:
            statistics = statistics or StreamingMean(reply.shared)
            statistics.add(reply.shared, reply.samples)
        elif "accuracy" in reply.metrics:
            measured[client] = reply.metrics["accuracy"]
    removal.costs.rebook("recalibration", EVALUATION, beside.share, beside.cpu_seconds)
    if statistics is None:
        return corrected, missing, measured
    return {**corrected, **statistics.result()}, missing, {}


@dataclass
class Beside:
    """What clients spent on measuring while they were asked for something else.

    A client on a machine of its own may say anything: at most what its reply took counts.
    """

    seconds: float = 0.0
    of_seconds: float = 0.0
    cpu_seconds: float = 0.0

    def add(self, reply: Reply) -> None:
        self.of_seconds += reply.seconds
        self.seconds += _part(reply, MEASURING, reply.seconds)
        self.cpu_seconds += _part(reply, MEASURING_CPU, reply.cpu_seconds)

    @property
    def share(self) -> float:
        return self.seconds / self.of_seconds if self.of_seconds else 0.0


def _part(reply: Reply, name: str, whole: float) -> float:
    told = float(reply.metrics.get(name, 0.0))
    return min(told, whole) if told > 0 else 0.0


def _statistics(federation: Federation, how: Recalibration) -> Tensors:
    """The shared normalisation statistics that clients re-estimate, as they are now."""
    if not how.statistics:
        return {}
    names = shared_statistics(federation.bench.build_model(), federation.bench.split)
    return {name: federation.shared[name] for name in names}


def _accept(federation: Federation, reply: Reply, client: str, statistics: Tensors) -> bool:
    """Stage a client's new personal part, if it is what it should be."""
    reason = check_personal(reply, federation.rules(), client, statistics)
    if reason is not None:
        federation.store.ledger.write(refusal_rows(federation.rounds, [Refusal(client, reason)]))
        return False
    federation.personal_place.stage(reply)
    return True


def _ask(
    removal: Removal, stage: str, task: Task, clients: Sequence[str], shared: Tensors
) -> Iterator[Reply]:
    """Ask clients for something as a part of a stage, with its cost and progress."""
    federation = removal.federation
    removal.on_stage(stage, 0, len(clients))
    with (
        removal.costs.stage(stage) as cost,
        closing(
            federation.engine.run(task, clients, shared, federation.locate_personal)
        ) as replies,
    ):
        for done, reply in enumerate(replies, start=1):
            if not federation.engine.in_process:
                cost.cpu_seconds += reply.cpu_seconds
            if reply.failure is not None:
                removal.silent.add(clients[done - 1])
            yield reply
            removal.on_stage(stage, done, len(clients))


def _known_accuracies(removal: Removal) -> dict[str, float]:
    """Of the remaining clients, if the last evaluation was of these very tensors."""
    ledger, store = removal.federation.store.ledger, removal.federation.store
    if ledger.meta("evaluated_commit") != str(store.commits):
        return {}
    sql = "SELECT client, accuracy FROM evaluations WHERE round = ? ORDER BY client"
    found = {row["client"]: row["accuracy"] for row in ledger.rows(sql, removal.federation.rounds)}
    known = {client: found[client] for client in removal.remaining if client in found}
    return known if len(known) == len(removal.remaining) else {}


def _accuracies(
    removal: Removal, shared: Tensors, leave_out: Collection[str] = ()
) -> dict[str, float]:
    """Of the remaining clients with their newest personal parts, on their own test samples."""
    task = Task("evaluate", removal.federation.rounds)
    clients = [client for client in removal.remaining if client not in leave_out]
    if not clients:
        return {}
    replies = _ask(removal, EVALUATION, task, clients, shared)
    scores = removal.federation.sound_scores(zip(clients, replies, strict=True))
    return {client: score.accuracy for client, score in scores.items()}


def _erase(removal: Removal) -> dict[str, int]:
    """Put the removal of all that belonged to the targets into the commit; say how much it is."""
    store = removal.federation.store
    removal.on_stage(ERASURE, 0, 1)
    with removal.costs.stage(ERASURE), one_thread():
        rows = ledger_of.count_rows(store.ledger, removal.targets)
        if not _starts_over(removal.options):
            erasure = _erasure(removal.federation, removal.targets, removal.options)
            for record in RECORDS:
                record.renew(erasure)
        files = doomed_files(removal.federation, removal.targets, removal.options)
        sizes = [store.locate(name).stat().st_size for name in files]
        sizes += _sizes(doomed_folders(store.path, removal.remaining))
        store.keep(ledger_of.erase_rows(removal.targets), files)
    removal.on_stage(ERASURE, 1, 1)
    return {"files": len(sizes), "bytes": sum(sizes), "rows": rows}


def _sizes(folders: Sequence[Path]) -> list[int]:
    """Bytes of each file in oracles and comparisons that go when the commit is done."""
    files = (file for folder in folders for file in folder.rglob("*") if file.is_file())
    return [file.stat().st_size for file in files]


def doomed_files(
    federation: Federation, targets: Sequence[str], options: ForgetOptions
) -> list[str]:
    """The files of the run that must go with these targets.

    Reports are about the run as it was, and name the targets among those who remain. Records
    of a training that another one takes the place of say nothing of the new tensors.
    """
    store, erasure = federation.store, _erasure(federation, targets, options)
    own = [file(target) for file in (personal_file, held_file) for target in targets]
    for record in RECORDS:
        own += [*record.own_files(erasure.leaving), *record.doomed(erasure)]
    if _starts_over(options):
        own += store.names("records/")
    own += doomed_cluster_files(store, federation.clusters, targets)
    known = dict.fromkeys([*own, *_reports(store.path)])
    return [name for name in known if store.has(name)]


def _starts_over(options: ForgetOptions) -> bool:
    return METHODS.parse(options.method)[0].starts_over


def _erasure(federation: Federation, targets: Sequence[str], options: ForgetOptions) -> Erasure:
    clients, everything = tuple(federation.clients), options.forget_records == "all"
    return Erasure(federation.store, federation.bench.split, clients, tuple(targets), everything)


def _reports(run: Path) -> list[str]:
    return sorted(file.relative_to(run).as_posix() for file in (run / REPORTS).rglob("*"))


def _commit(removal: Removal, outcome: Outcome, shared: Tensors) -> None:
    federation, store = removal.federation, removal.federation.store
    repairs = removal.options.repair_rounds
    status = ledger_of.REPAIRING if repairs else ledger_of.DONE
    request, known = removal.request, outcome.as_json()
    asked = removal.remaining if removal.options.recalibration() else []
    store.keep(
        [
            ledger_of.finish_row(request, status, 0, known),
            *ledger_of.preservation_rows(request, outcome.before, outcome.after),
            ledger_of.preserved_row(store.commits + 1),
            *ledger_of.recalibration_rows(request, asked, outcome.not_recalibrated),
            *federation.personal_place.farewell_rows(request.number, removal.targets),
        ]
    )
    with uninterrupted():
        store.commit()
        clear_notes(store.path)
        federation.leave(removal.targets, shared)


def _repair(removal: Removal) -> Outcome:
    """Ordinary rounds without the targets, one commit each; then the outcome is complete."""
    store = removal.federation.store
    request = ledger_of.read_request(store.ledger, removal.request.number)
    outcome = ledger_of.read_outcome(store.ledger, request)
    wanted = int(request.options["repair_rounds"])
    for number in range(request.repaired + 1, wanted + 1):
        _repair_round(removal, number, wanted)
    if request.status == ledger_of.DONE:
        return outcome
    outcome = _repaired(removal, outcome, wanted)
    store.ledger.write(
        [
            ledger_of.finish_row(request, ledger_of.DONE, wanted, outcome.as_json()),
            *ledger_of.preservation_rows(request, outcome.before, outcome.after),
            ledger_of.preserved_row(store.commits),
        ]
    )
    return outcome


def _repair_round(removal: Removal, number: int, wanted: int) -> None:
    federation = removal.federation
    removal.on_stage("repair", number - 1, wanted)
    rows = [ledger_of.repaired_row(removal.request, number)]
    with removal.costs.stage("repair") as cost:
        try:
            result = federation.play_round(
                federation.clients,
                lambda _: None,
                epochs=1,
                request=removal.request.number,
                also=rows,
            )
        finally:
            federation.store.drop()
            federation.store.commit()
        if not federation.engine.in_process:
            cost.cpu_seconds += sum(reply.cpu_seconds for reply in result.accepted)
    removal.on_stage("repair", number, wanted)


def _repaired(removal: Removal, outcome: Outcome, rounds: int) -> Outcome:
    """The outcome with what the repair did and cost."""
    federation = removal.federation
    after = _accuracies(removal, federation.shared)
    per_round = federation.clusters.served_bytes(federation.shared) * len(federation.clients)
    both = [client for client in outcome.before if client in after]
    return replace(
        outcome,
        before={client: outcome.before[client] for client in both},
        after={client: after[client] for client in both},
        rounds=outcome.rounds + rounds,
        finished_at=now(),
        stages=added(outcome.stages, removal.costs.stages),
        bytes_broadcast=outcome.bytes_broadcast + rounds * per_round,
        bytes_uploaded=outcome.bytes_uploaded + rounds * per_round,
        shared_sha256_after=_digest_of_shared(federation),
        state_sha256_after=federation.store.state_digest(),
    )


def recalibrate_missing(federation: Federation, on_stage: OnStage | None = None) -> list[str]:
    """Let those recalibrate who were away when a client was forgotten; returns who did."""
    ledger = federation.store.ledger
    done: list[str] = []
    for request in ledger_of.read_requests(ledger):
        waiting = ledger_of.not_recalibrated(ledger, request)
        if waiting:
            done += _recalibrate_later(federation, request, waiting, on_stage)
    return done


def _recalibrate_later(
    federation: Federation, request: Request, waiting: list[str], on_stage: OnStage | None
) -> list[str]:
    options = ledger_of.options_of(request)
    tell = on_stage or (lambda _stage, _done, _of: None)
    removal = Removal(federation, request, options, (), Costs(), tell)
    how = options.recalibration()
    if how is None:
        return []
    # Statistics that were shared have been averaged without these clients; theirs stay local.
    task = Task(
        *("recalibrate", request.number),
        recalibration=replace(how, statistics=False),
        seed=options.seed,
    )
    replies = _ask(removal, "recalibration", task, waiting, federation.shared)
    done = [
        client
        for client, reply in zip(waiting, replies, strict=True)
        if _accept(federation, reply, client, {})
    ]
    federation.store.keep(ledger_of.recalibration_rows(request, done, ()))
    federation.store.commit()
    return done
