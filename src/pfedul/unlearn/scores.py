"""Scores of clients on the shared layers of a run, as they are recorded and as they are exactly."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from pfedul.errors import PfedulError
from pfedul.protocol import Task
from pfedul.records.fisher_on_disk import StoredFisher
from pfedul.unlearn.pfedul.method import why_no_fisher
from pfedul.unlearn.pfedul.scores import layer_scores

if TYPE_CHECKING:
    from pfedul.federation import Federation


def score_table(federation: Federation) -> dict[str, list[float]]:
    """Every recorded client's score on every shared layer (Eq. 6)."""
    layers = federation.bench.split.layers
    fisher = StoredFisher(federation.store, federation.clients, layers)
    if not fisher.clients:
        raise PfedulError(why_no_fisher(federation))
    total = fisher.total()
    return {client: layer_scores(fisher.of(client), total, layers) for client in fisher.clients}


def known_scores(federation: Federation) -> dict[str, list[float]]:
    """The same, and nothing where no record of it was kept."""
    fisher = StoredFisher(federation.store, federation.clients, federation.bench.split.layers)
    return score_table(federation) if fisher.clients else {}


def exact_scores(federation: Federation, targets: Sequence[str]) -> list[float]:
    """The targets' scores from the exact Fisher (Eq. 4): an audit that reads clients' data."""
    task = Task("exact-fisher", federation.rounds)
    arguments = task, federation.clients, federation.shared, federation.locate_personal
    with closing(federation.engine.run(*arguments)) as replies:
        norms = {reply.client: reply.metrics for reply in replies}
    scores = []
    for layer in federation.bench.split.layers:
        total = sum(of_client[layer.name] for of_client in norms.values())
        own = sum(norms[target][layer.name] for target in targets)
        scores.append(own / total if total else 0.0)
    return scores
