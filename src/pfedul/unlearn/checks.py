"""Checks before a removal: can these clients be forgotten, and with this method?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pfedul.errors import PfedulError, TransientError
from pfedul.records import RECORDS
from pfedul.run.run import Run
from pfedul.store.requests import forgotten
from pfedul.unlearn.base import Method
from pfedul.unlearn.context import Context
from pfedul.unlearn.methods import METHODS
from pfedul.unlearn.notebook import Notebook
from pfedul.unlearn.options import ForgetOptions
from pfedul.unlearn.pfedul.method import why_no_record


def check_targets(run: Run, targets: Sequence[str]) -> None:
    """Refuse targets that cannot be forgotten."""
    if not targets:
        raise PfedulError("Name at least one client to forget.")
    gone = forgotten(run.store.ledger)
    for target in targets:
        if target in run.clients:
            continue
        if target in gone:
            when = gone[target].asked_at[:10]
            raise PfedulError(
                f"The client '{target}' was already forgotten (request {gone[target].number}, "
                f"{when})."
            )
        known = ", ".join(run.clients)
        raise PfedulError(f"There is no client '{target}' in this run; it has: {known}.")
    if set(targets) >= set(run.clients):
        raise PfedulError(
            "Nobody would remain; a federation without clients is deleted, not unlearned."
        )


def check_away(run: Run, targets: Sequence[str], away: Sequence[str]) -> tuple[str, ...]:
    """The remaining clients that are away; targets may be named as well."""
    for client in away:
        if client not in run.clients and client not in targets:
            raise PfedulError(f"'{client}' is not one of the clients, so cannot be away.")
    return tuple(client for client in away if client not in targets)


def check_somebody_is_there(
    run: Run, targets: Sequence[str], options: ForgetOptions, away: Sequence[str]
) -> None:
    """Refuse `exclude` where nobody could estimate shared statistics again, or repair."""
    remaining = [client for client in run.clients if client not in targets]
    for group in run.clusters.with_any(targets, remaining).values() if options.excludes else ():
        if set(group) <= set(away):
            raise TransientError(
                f"All who remain in the federation of {', '.join(targets)} are away "
                f"({', '.join(group)}); try again when one of them is there."
            )


def check_method(
    run: Run, targets: Sequence[str], options: ForgetOptions, away: Sequence[str]
) -> None:
    """Refuse, before anything is done, a method that cannot work on this run."""
    method, own = options.entry, options.method_options(run.settings.seed)
    _check_away(method, own, targets, away)
    task = run.bench.training.task
    if method.needs.classes and not task.classes:
        raise PfedulError(
            f"The method '{method.name}' works on classes, and the task {task.name} has none; "
            f"choose one of: {', '.join(m.name for m in METHODS if not m.needs.classes)}."
        )
    if method.needs.local and run.personal_place.at_clients:
        raise PfedulError(
            f"The method '{method.name}' reads samples and personal tensors of clients, which are "
            "on machines of their own here; choose another ('pfedul methods')."
        )
    if not run.rounds and method.needs.trained:
        raise PfedulError(
            "This run has not been trained, so there is nothing to unlearn; "
            "--method none erases what belongs to the client."
        )
    if run.clusters.several and not method.does.clusters:
        raise PfedulError(
            f"The method '{method.name}' works on one model that all clients share, and this run "
            f"has clusters; choose one of: {', '.join(m.name for m in METHODS if m.does.clusters)}."
        )
    if run.rounds:
        _check_records(run, method, options.records)
    if method.check is not None:
        method.check(context_for_check(run, targets, options), own)


def _check_away(method: Method, own: Any, targets: Sequence[str], away: Sequence[str]) -> None:
    gone = [target for target in targets if target in away]
    if method.needs.target and gone and not method.needs.spares_target(own):
        others = ", ".join(one.name for one in METHODS if not one.needs.target)
        raise PfedulError(
            f"The method '{method.name}' needs {', '.join(gone)} to take part, which is away; "
            f"methods that do not: {others}."
        )
    absent = [client for client in away if client not in targets]
    if method.does.starts_over and absent:
        raise PfedulError(
            f"The method '{method.name}' retrains every remaining client, and "
            f"{', '.join(absent)} is away; wait until everybody is there, or choose another."
        )


def why_not(run: Run, target: str, method: Method) -> str | None:
    """Why this method cannot forget a client of this run; None if it can."""
    try:
        check_method(run, (target,), ForgetOptions(method=method.name), away=())
    except PfedulError as error:
        return str(error)
    return None


def context_for_check(run: Run, targets: Sequence[str], options: ForgetOptions) -> Context:
    """The context for a check: the request has no number yet, and nothing is saved."""
    return Context(
        run=run,
        targets=tuple(targets),
        remaining=tuple(client for client in run.clients if client not in targets),
        request=0,
        spec=options.method,
        notebook=Notebook(run.store.path, "nothing is saved by a check"),
        request_seed=options.seed,
    )


def _check_records(run: Run, method: Method, records: Sequence[str]) -> None:
    missing = [name for name in records if name not in run.settings.records]
    if missing and method.does.plans:
        raise PfedulError(why_no_record(run, missing[0]))
    if missing:
        raise PfedulError(
            f"This run keeps no {RECORDS[missing[0]].title} record, which the method "
            f"'{method.name}' needs; train a run with --record {'+'.join(records)}."
        )
