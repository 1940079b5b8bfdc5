"""Repair: ordinary rounds without the targets after a removal, one commit each."""

from __future__ import annotations

from dataclasses import replace

from pfedul.run.run import Run
from pfedul.run.training import play_round
from pfedul.store import requests as requests_of
from pfedul.store.paths import SHARED_FILE
from pfedul.store.requests import Request
from pfedul.store.tables import digest_of, now
from pfedul.unlearn.outcome import Outcome, added, read_outcome
from pfedul.unlearn.stage import Stages


def repair(run: Run, stages: Stages, number: int) -> Outcome:
    """Play the repair rounds of a request that are still to do; returns the whole outcome."""
    ledger = run.store.ledger
    request = requests_of.read_request(ledger, number)
    outcome = read_outcome(ledger, request)
    total = int(request.options["repair_rounds"])
    for position in range(request.repaired + 1, total + 1):
        _repair_round(run, stages, request, position, total)
    if request.status == requests_of.DONE:
        return outcome
    outcome = _repaired(run, stages, outcome, total)
    ledger.write(
        [
            requests_of.finish_row(request, requests_of.DONE, total, outcome.as_json()),
            *requests_of.preservation_rows(request, outcome.before, outcome.after),
            requests_of.preserved_row(run.store.commits),
        ]
    )
    return outcome


def _repair_round(run: Run, stages: Stages, request: Request, number: int, total: int) -> None:
    stages.on_stage("repair", number - 1, total)
    rows = [requests_of.repaired_row(request, number)]
    with stages.costs.stage("repair") as cost:
        try:
            result = play_round(run, run.clients, epochs=1, request=request.number, also=rows)
        finally:
            run.store.drop()
            run.store.commit()
        cost.cpu_seconds += sum(map(run.cpu_elsewhere, result.accepted))
    stages.on_stage("repair", number, total)


def _repaired(run: Run, stages: Stages, outcome: Outcome, rounds: int) -> Outcome:
    """The outcome with what the repair did and cost."""
    after = stages.accuracies(run.clients, run.shared)
    per_round = run.clusters.served_bytes(run.shared) * len(run.clients)
    both = [client for client in outcome.before if client in after]
    return replace(
        outcome,
        before={client: outcome.before[client] for client in both},
        after={client: after[client] for client in both},
        rounds=outcome.rounds + rounds,
        finished_at=now(),
        stages=added(outcome.stages, stages.costs.stages),
        bytes_broadcast=outcome.bytes_broadcast + rounds * per_round,
        bytes_uploaded=outcome.bytes_uploaded + rounds * per_round,
        shared_sha256_after=str(digest_of(run.store.ledger, SHARED_FILE)),
        state_sha256_after=run.store.state_digest(),
    )
