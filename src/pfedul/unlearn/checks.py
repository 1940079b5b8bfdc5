"""What cannot be forgotten, or not in the way that is asked for: said before anything is done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pfedul.errors import PfedulError
from pfedul.records import RECORDS, record_names
from pfedul.store.requests import forgotten
from pfedul.unlearn.base import Method
from pfedul.unlearn.context import Work
from pfedul.unlearn.methods import METHODS
from pfedul.unlearn.notebook import Notebook
from pfedul.unlearn.options import ForgetOptions

if TYPE_CHECKING:
    from pfedul.federation import Federation


def check_targets(federation: Federation, targets: Sequence[str]) -> None:
    """Refuse what cannot be forgotten."""
    if not targets:
        raise PfedulError("Name at least one client to forget.")
    gone = forgotten(federation.store.ledger)
    for target in targets:
        if target in federation.clients:
            continue
        if target in gone:
            when = gone[target].asked_at[:10]
            raise PfedulError(
                f"The client '{target}' was already forgotten (request {gone[target].number}, "
                f"{when})."
            )
        known = ", ".join(federation.clients)
        raise PfedulError(f"There is no client '{target}' in this run; it has: {known}.")
    if set(targets) >= set(federation.clients):
        raise PfedulError(
            "Nobody would remain; a federation without clients is deleted, not unlearned."
        )


def check_away(
    federation: Federation, targets: Sequence[str], away: Sequence[str]
) -> tuple[str, ...]:
    """Those of the remaining clients who are away; a target may be away as well."""
    for client in away:
        if client not in federation.clients and client not in targets:
            raise PfedulError(f"'{client}' is not one of the clients, so cannot be away.")
    return tuple(client for client in away if client not in targets)


def check_method(
    federation: Federation, targets: Sequence[str], options: ForgetOptions, away: Sequence[str]
) -> None:
    """Refuse, before anything is done, what the method cannot do here."""
    method, own = METHODS.parse(options.method)
    gone = [target for target in targets if target in away]
    if method.target_works and gone and not method.spares_target(own):
        raise PfedulError(
            f"The method '{method.name}' needs {', '.join(gone)} to take part, which is away; "
            f"methods that do not: {', '.join(_without_target())}."
        )
    absent = [client for client in away if client not in targets]
    if method.starts_over and absent:
        raise PfedulError(
            f"The method '{method.name}' trains every remaining client anew, and "
            f"{', '.join(absent)} is away; wait until everybody is there, or choose another."
        )
    if method.local_only and federation.personal_place.at_clients:
        raise PfedulError(
            f"The method '{method.name}' reads samples and personal tensors of clients, which are "
            "on machines of their own here; choose another ('pfedul methods')."
        )
    if not federation.rounds and not method.untrained:
        raise PfedulError(
            "This run has not been trained, so there is nothing to unlearn; "
            "--method none erases what is the client's."
        )
    if federation.clusters.several and not method.clustered:
        raise PfedulError(
            f"The method '{method.name}' works on one model that all clients share, and this run "
            f"has clusters; choose one of: {', '.join(m.name for m in METHODS if m.clustered)}."
        )
    if federation.rounds:
        _check_records(federation, method)
    if method.check is not None:
        remaining = tuple(client for client in federation.clients if client not in targets)
        nowhere = Notebook(federation.store.path, "nothing is noted by a check")
        method.check(Work(federation, tuple(targets), remaining, options, 0, nowhere), own)


def _without_target() -> list[str]:
    return [method.name for method in METHODS if not method.target_works]


def _check_records(federation: Federation, method: Method) -> None:
    kept = record_names(federation.settings.record)
    missing = [name for name in method.needs if name not in kept]
    if missing:
        raise PfedulError(
            f"This run keeps no {RECORDS[missing[0]].title} record, which the method "
            f"'{method.name}' needs; train a run with --record {'+'.join(method.needs)}."
        )
