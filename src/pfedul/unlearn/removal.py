"""A removal, stage by stage: Algorithm 1 of the paper, with erasure and the ledger around it.

A removal is one commit. Killed before it, the request is pending and no tensor has been
touched; killed after it, nothing of the targets is left. Asking again finishes what was
begun. It is deterministic: the same request on the same tensors ends with the same bits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pfedul.base.clock import now
from pfedul.base.hashes import digest
from pfedul.base.interruption import uninterrupted
from pfedul.base.tensors import Tensors, same_weights
from pfedul.base.text import without_names
from pfedul.base.threads import one_thread
from pfedul.errors import MethodFailed, NothingChanged, PfedulError, TransientError
from pfedul.protocol import OnStage
from pfedul.run.retrained import cpu_to_retrain
from pfedul.run.run import Run
from pfedul.store import requests as requests_of
from pfedul.store.copies import clear_notes, refuse_leftovers
from pfedul.store.folder import own_errors
from pfedul.store.ledger import insert
from pfedul.store.paths import INIT_FILE, SHARED_FILE, personal_file
from pfedul.store.requests import FAILED, REFUSED
from pfedul.store.tables import LENGTHS_SINCE, accuracies_of, digest_of
from pfedul.unlearn.account import Account, Counts
from pfedul.unlearn.agreement import not_measured, refuse_ruin
from pfedul.unlearn.base import Method, Result
from pfedul.unlearn.checks import (
    check_away,
    check_method,
    check_somebody_is_there,
    check_targets,
)
from pfedul.unlearn.context import Context
from pfedul.unlearn.counters import counters_without_targets
from pfedul.unlearn.erasure import erase
from pfedul.unlearn.inspection import usual_repair
from pfedul.unlearn.moved import plan_json
from pfedul.unlearn.notebook import Notebook
from pfedul.unlearn.options import ForgetOptions, changed_options
from pfedul.unlearn.outcome import ERASURE, Outcome, read_outcome
from pfedul.unlearn.recalibration import Recalibrated, recalibrate
from pfedul.unlearn.refused import refusals_kept
from pfedul.unlearn.repair import REPAIR, Repair, statement
from pfedul.unlearn.request import Removal
from pfedul.unlearn.stage import Stages
from pfedul.unlearn.unchanged import refuse_unchanged, took_part
from pfedul.unlearn.witness import Examine, Watch


def forget(
    run: Run,
    targets: Sequence[str],
    options: ForgetOptions,
    away: Sequence[str] = (),
    on_stage: OnStage | None = None,
    examine: Examine | None = None,
    asked: Mapping[str, Any] | None = None,
) -> Outcome:
    """Honour a removal request; see `Federation.forget`. `examine` watches it.

    `asked` says who asks for it, and why. What is done already is not done again.
    """
    done = requests_of.already_done(run.store.ledger, targets, run.clients)
    if done is not None:
        return read_outcome(run.store.ledger, done)
    watch = Watch(Stages(run, on_stage), examine)
    targets = tuple(dict.fromkeys(targets))
    asked = asked or {}
    with own_errors(run.store.path), refusals_kept(run, targets, options, asked):
        removal = _begin(run, targets, options, away, watch, asked)
    _ = run.engine  # started before anything is measured
    try:
        with own_errors(run.store.path):
            _remove(removal)
    except BaseException as error:
        run.store.roll_back()
        stays_pending = isinstance(error, TransientError | NothingChanged)
        if isinstance(error, PfedulError) and not stays_pending:
            clear_notes(run.store.path)
            _end(removal, error)
        raise
    ledger = run.store.ledger
    with own_errors(run.store.path):
        return read_outcome(ledger, requests_of.read_request(ledger, removal.request.number))


def _end(removal: Removal, error: PfedulError) -> None:
    """Note in the ledger why the request came to nothing, without the name of who remains."""
    status = FAILED if isinstance(error, MethodFailed) else REFUSED
    reason = without_names(str(error), removal.remaining)
    requests_of.end_request(removal.run.store.ledger, removal.request, status, reason)


def _begin(
    run: Run,
    targets: tuple[str, ...],
    options: ForgetOptions,
    away: Sequence[str],
    watch: Watch,
    asked: Mapping[str, Any],
) -> Removal:
    """Check the request and write it into the ledger, or resume the pending one."""
    pending = requests_of.unfinished(run.store.ledger)
    check_targets(run, targets)
    refuse_leftovers(run.store.path, [one for one in run.clients if one not in targets])
    check_method(run, targets, options, away)
    away, options = check_away(run, targets, away), options.settled(usual_repair(run, targets))
    check_somebody_is_there(run, targets, options, away)
    notes = changed_options(pending, options)
    request = requests_of.file_request(run.store.ledger, targets, options.as_json(), asked)
    return Removal(run, request, options, tuple(away), watch, notes)


def _remove(removal: Removal) -> None:
    """Stages 1 to 3, repair before the last, and the erasure, as one commit."""
    run, stages = removal.run, removal.stages
    removal.watch.begin(removal.targets)
    before = _known_accuracies(removal) or stages.accuracies(removal.remaining, run.shared)
    result, repair, counts, recalibrated = _corrected(removal)
    sha256_after = run.store.stage(SHARED_FILE, recalibrated.shared)
    erased = _erase(removal, repair)
    after = _accuracies_after(removal, recalibrated)
    name, silent = removal.options.entry.name, stages.silent
    refuse_ruin(name, removal.remaining, silent, before, after)
    both = [client for client in before if client in after]
    notes = (*removal.notes, *result.notes, *_repair_notes(removal, result, repair))
    outcome = Outcome(
        request=removal.request.number,
        targets=removal.targets,
        options=removal.options.as_json(),
        asked_at=removal.request.asked_at,
        finished_at=now(),
        plan=plan_json(run, removal.targets, removal.options.method, result),
        erased=erased,
        before={client: before[client] for client in both},
        after={client: after[client] for client in both},
        stages=stages.costs.stages,
        rounds=counts.rounds,
        bytes_broadcast=counts.bytes_broadcast + _broadcast_size(removal, recalibrated),
        bytes_uploaded=counts.bytes_uploaded,
        shared_sha256_before=str(digest_of(run.store.ledger, SHARED_FILE)),
        shared_sha256_after=sha256_after,
        not_recalibrated=_not_recalibrated(removal, recalibrated),
        notes=(*notes, *not_measured(removal.remaining, silent, after)),
        audit=removal.watch.evidence(recalibrated.shared),
        retraining_cpu_seconds=cpu_to_retrain(run, removal.remaining),
        state_sha256_after=run.store.state_digest(),
        asked=removal.request.asked,
    )
    _commit(removal, outcome, recalibrated.shared)


def _corrected(removal: Removal) -> tuple[Result, Repair, Counts, Recalibrated]:
    """The method, repair and recalibration; what they sent is counted together."""
    run, options = removal.run, removal.options
    ctx, result = _unlearn(removal)
    _stage_result(run, result)
    repair, repaired = _repair(removal, ctx, result.shared)
    refuse_unchanged(run, removal.targets, options, result, repaired)
    stale = took_part(run, removal.targets) or not same_weights(repaired, run.shared)
    number = removal.request.number
    recalibrated = recalibrate(removal.stages, options, removal.present, repaired, number, stale)
    return result, repair, ctx.account.counts + repair.ctx.account.counts, recalibrated


# Stages 1 and 2: the method


def _unlearn(removal: Removal) -> tuple[Context, Result]:
    """What the method makes of the shared tensors."""
    method = removal.options.entry
    own = removal.options.method_options(removal.run.settings.seed)
    ctx, stages = context_of(removal), removal.stages
    stage = "plan" if method.does.plans else "unlearning"
    stages.on_stage(stage, 0, 1)
    # One thread, as at clients: the last bits of sums depend on the number of threads.
    with one_thread():
        result = method.unlearn(ctx, own)
        shared = _with_counters(ctx, method, result.shared)
        result = replace(result, shared=shared, notes=(*result.notes, *ctx.account.notes()))
    stages.costs.stages[stage] = ctx.account.meter.spent()
    stages.on_stage(stage, 1, 1)
    return ctx, result


def context_of(removal: Removal) -> Context:
    """The request as its method sees it."""
    return Context(
        run=removal.run,
        targets=removal.targets,
        remaining=tuple(removal.remaining),
        request=removal.request.number,
        spec=removal.options.method,
        notebook=Notebook(removal.run.store.path, _key(removal)),
        recalibration=removal.options.refitting(),
        request_seed=removal.options.seed,
        away=removal.away,
        on_step=removal.stages.on_stage,
    )


def _key(removal: Removal) -> str:
    """A key of everything that decides what a method does.

    Notes of another request, or of this one with other clients away, have another key and are
    not used.
    """
    decides = [
        *(removal.request.number, removal.targets, removal.options.decisive()),
        sorted(removal.away),
        str(digest_of(removal.run.store.ledger, SHARED_FILE)),
    ]
    return digest(json.dumps(decides).encode())[:16]


def _with_counters(ctx: Context, method: Method, shared: Tensors) -> Tensors:
    """Integer tensors are counters of ordinary training, which unlearning is not."""
    ctx.finite(shared)
    if method.does.starts_over:
        return shared
    return {**shared, **counters_without_targets(ctx)}


def _stage_result(run: Run, result: Result) -> None:
    for client, personal in result.personal.items():
        run.store.stage(personal_file(client), personal)
    if result.initial is not None:
        run.store.stage(INIT_FILE, result.initial)
    run.store.keep([])  # what clients recalibrate is the new personal part


def _repair(removal: Removal, ctx: Context, shared: Tensors) -> tuple[Repair, Tensors]:
    """The repair rounds, with an account of their own, and the shared tensors after them."""
    options, own = removal.options, replace(ctx, account=Account())
    recorded = options.excludes and options.forget_records == "target"
    idle = not removal.concerned or same_weights(shared, removal.run.shared)
    rounds = 0 if options.excludes and idle else options.repairs
    repair = Repair(own, removal.concerned, rounds, options.repair_kind, recorded)
    if not repair.rounds:
        return repair, shared
    with one_thread():
        shared = _with_counters(own, options.entry, repair.repaired(shared))
    removal.stages.costs.stages[REPAIR] = own.account.meter.spent()
    return repair, shared


def _repair_notes(removal: Removal, result: Result, repair: Repair) -> tuple[str, ...]:
    if not repair.rounds:
        return ()
    corrected = result.plan is not None and bool(result.plan.corrected)
    excluded = corrected and removal.options.excludes
    words = statement(repair.rounds, repair.kind, excluded)
    return (words, *repair.ctx.account.notes())


# What follows stage 3


def _erase(removal: Removal, repair: Repair) -> dict[str, int]:
    stages = removal.stages
    stages.on_stage(ERASURE, 0, 1)
    with stages.costs.stage(ERASURE), one_thread():
        erased = erase(removal.run, removal.targets, removal.options, repair.added)
    stages.on_stage(ERASURE, 1, 1)
    return erased


def _known_accuracies(removal: Removal) -> dict[str, float]:
    """Accuracies of the remaining clients, if the last evaluation used exactly these tensors."""
    store = removal.run.store
    if store.ledger.meta("evaluated_commit") != str(store.commits):
        return {}
    evaluated = accuracies_of(store.ledger, removal.run.rounds)
    known = {client: evaluated[client] for client in removal.remaining if client in evaluated}
    return known if len(known) == len(removal.remaining) else {}


def _broadcast_size(removal: Removal, recalibrated: Recalibrated) -> int:
    """Bytes of the corrected tensors, once for each client that recalibrated."""
    if removal.options.recalibration() is None:
        return 0
    size = removal.run.clusters.served_bytes(recalibrated.shared)
    return size * (len(removal.present) - len(recalibrated.missing))


def _not_recalibrated(removal: Removal, recalibrated: Recalibrated) -> tuple[str, ...]:
    if removal.options.recalibration() is None:
        return ()
    away = [client for client in removal.away if client in removal.concerned]
    return (*recalibrated.missing, *away)


def _accuracies_after(removal: Removal, recalibrated: Recalibrated) -> dict[str, float]:
    known = recalibrated.accuracies
    unknown = [client for client in removal.remaining if client not in known]
    return known | removal.stages.accuracies(unknown, recalibrated.shared)


def _commit(removal: Removal, outcome: Outcome, shared: Tensors) -> None:
    run, store, request = removal.run, removal.run.store, removal.request
    recalibrating = removal.concerned if removal.options.recalibration() else []
    store.keep(
        [
            *requests_of.finish_rows(request, removal.options.repairs, outcome.as_json()),
            *requests_of.erased_admissions(store.ledger, removal.targets),
            *requests_of.preservation_rows(request, outcome.before, outcome.after),
            requests_of.preserved_row(store.commits + 1),
            insert("meta", key=LENGTHS_SINCE, value=str(run.rounds)),
            *requests_of.recalibration_rows(request, recalibrating, outcome.not_recalibrated),
            *run.personal_place.leaving_rows(request.number, removal.targets),
        ]
    )
    with uninterrupted():
        store.commit()
        clear_notes(store.path)
        run.leave(removal.targets, shared)
