"""Training a run: rounds, their commits, evaluations on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from pfedul.base.interruption import uninterrupted
from pfedul.clusters.forming import form_clusters
from pfedul.errors import PfedulError
from pfedul.evaluation import Evaluation
from pfedul.protocol import Reply, RoundResult
from pfedul.records.base import Keeping
from pfedul.records.recording import RoundRecorder
from pfedul.run.callbacks import Callback, Progress
from pfedul.run.privacy import sampled
from pfedul.run.run import Run
from pfedul.server.round import TooFewReplies, choose_clients, run_round
from pfedul.settings import merge, write_toml
from pfedul.store.folder import own_errors
from pfedul.store.ledger import Statement
from pfedul.store.paths import INIT_FILE, SHARED_FILE, checkpoint_file
from pfedul.store.requests import unfinished
from pfedul.store.tables import (
    clients_seen,
    evaluation_rows,
    last_round,
    recent_lengths,
    refusal_rows,
    round_rows,
)


def train(
    run: Run,
    rounds: int | None = None,
    callback: Callback | None = None,
    evaluated: bool = True,
) -> None:
    """See `Federation.train`."""
    _refuse_while_pending(run)
    _remember_rounds(run, rounds)
    _form_clusters(run)
    with own_errors(run.store.path):
        _rounds(run, callback or Callback(), evaluated)


def _rounds(run: Run, callback: Callback, evaluated: bool) -> None:
    """All rounds that are left; those that are whole are committed, however it ends."""
    try:
        while run.rounds < run.settings.rounds:
            _one_round(run, callback, evaluated)
            if run.rounds % run.settings.checkpoint_every == 0:
                run.store.commit()
    finally:
        run.store.drop()
        run.store.commit()


def _refuse_while_pending(run: Run) -> None:
    request = unfinished(run.store.ledger)
    if request is not None:
        raise PfedulError(
            f"Request {request.number} to forget {', '.join(request.targets)} is not finished; "
            "finish it by asking for it again, then train on."
        )


def _remember_rounds(run: Run, rounds: int | None) -> None:
    if rounds is not None and rounds > run.rounds and rounds != run.settings.rounds:
        run.settings = merge(run.settings, {"rounds": rounds})
        run.store.write_settings(write_toml(run.settings))


def _form_clusters(run: Run) -> None:
    """Form the clusters, once, before the first round."""
    if not run.clusters.several or run.clusters.assigned or not run.settings.rounds:
        return
    initial = run.store.read(INIT_FILE)

    def play(number: int, keep: Callable[[Reply], None]) -> RoundResult:
        return run_round(run.ask, number, run.clients, initial, run.rules(), keep)

    run.clusters = form_clusters(
        play,
        initial=initial,
        parameters=run.bench.split.parameters,
        samples={client: member.train_samples for client, member in run.members.items()},
        epochs=run.settings.local_epochs,
        count=run.settings.clusters,
    )
    for name, tensors in run.clusters.files(run.clients).items():
        run.store.stage(name, tensors)
    run.store.keep([])
    run.store.commit()


def _one_round(run: Run, callback: Callback, evaluated: bool) -> None:
    number, total = run.rounds + 1, run.settings.rounds
    clients = participants(run, number)
    result = play_round(
        run, clients, lambda done: callback.on_reply(Progress(number, total, done, len(clients)))
    )
    evaluation = _evaluate_if_due(run, number) if evaluated else None
    if evaluation is not None:
        callback.on_evaluation(evaluation)
    accuracy = None if evaluation is None else evaluation.mean
    replies = len(result.accepted)
    callback.on_round(Progress(number, total, replies, len(clients), result.loss, accuracy))


def participants(run: Run, number: int) -> list[str]:
    """Who takes part in a round: the same share of each cluster."""
    share, seed = run.settings.participation, run.settings.seed
    if run.settings.dp_clip is not None:
        return sampled(run.store, run.clients, share, number)
    groups = run.clusters.groups(run.clients).values()
    return sorted(c for group in groups for c in choose_clients(group, share, seed, number))


def play_round(
    run: Run,
    clients: Sequence[str],
    on_count: Callable[[int], None] | None = None,
    *,
    epochs: int | None = None,
    steps: int | None = None,
) -> RoundResult:
    """Play the next round with these clients; its result is staged but not yet committed.

    `epochs` and `steps` shorten the local training (see `Task`).
    """
    started, number = time.perf_counter(), run.rounds + 1
    keeping = Keeping(run.store, run.settings.recording, run.bench.split, run.clusters)
    recorder = RoundRecorder(keeping, run.settings.records, number, run.shared)
    replies = 0

    def keep(reply: Reply) -> None:
        nonlocal replies
        replies += 1
        run.personal_place.stage(reply)
        recorder.add(reply)
        if on_count is not None:
            on_count(replies)

    result = compute_round(run, number, clients, keep, epochs=epochs, steps=steps)
    recorder.finish(result)
    _stage_checkpoints(run, result)
    sha256 = run.store.stage(SHARED_FILE, result.shared)
    cost = {"seconds": time.perf_counter() - started, "record_seconds": recorder.seconds}
    with uninterrupted():
        _keep(run, round_rows(result, sha256, cost))
        run.remember(result)
    return result


def _keep(run: Run, rows: Sequence[Statement]) -> None:
    """If that fails, the run is again at its last commit: earlier rounds are dropped as well."""
    try:
        run.store.keep(rows)
    except BaseException:
        run.shared, run.rounds = run.store.read(SHARED_FILE), last_round(run.store.ledger)
        run.lengths = recent_lengths(run.store.ledger)
        raise


def compute_round(
    run: Run,
    number: int,
    clients: Sequence[str],
    keep: Callable[[Reply], None],
    *,
    epochs: int | None = None,
    steps: int | None = None,
) -> RoundResult:
    """The result of a round with these clients, one cluster after the other; stages nothing."""
    rules, whole = run.rules(), RoundResult(number, run.shared)
    needed = rules.min_replies
    if run.clusters.several:
        rules = replace(rules, min_replies=1)
    try:
        for cluster, group in run.clusters.groups(clients).items():
            view = run.clusters.view(run.shared, cluster)
            rate = run.settings.rate(number)
            part = run_round(run.ask, number, group, view, rules, keep, epochs, steps, rate)
            whole.shared = run.clusters.put(whole.shared, cluster, part.shared)
            whole.accepted += part.accepted
            whole.refused += part.refused
            whole.shortened += part.shortened
            whole.shares |= part.shares
            whole.noise |= part.noise
        if len(whole.accepted) < needed:
            raise TooFewReplies(number, len(clients), whole.refused, needed)
        return whole
    except TooFewReplies as error:
        run.store.ledger.write(refusal_rows(number, error.refused))
        raise


def _stage_checkpoints(run: Run, result: RoundResult) -> None:
    """Stage a checkpoint of a cluster before a member takes part for the first time.

    Without partial participation these are the initial tensors.
    """
    if not run.clusters.several or run.settings.participation == 1 or result.number == 1:
        return
    known = clients_seen(run.store.ledger)
    new = [reply.client for reply in result.accepted if reply.client not in known]
    for cluster in run.clusters.groups(new):
        own = run.clusters.view(run.shared, cluster)
        run.store.stage(checkpoint_file(cluster, result.number), own)


def _evaluate_if_due(run: Run, number: int) -> Evaluation | None:
    every = run.settings.evaluate_every
    if number != run.settings.rounds and (every == 0 or number % every):
        return None
    evaluation = run.measure()
    run.store.keep(evaluation_rows(evaluation, run.store.commits + 1))
    return evaluation
