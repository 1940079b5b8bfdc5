"""How clusters are formed before the first round: KNOT's opening rounds.

All clients train once from the initial tensors, twice the same: the mean of their updates
is known after the first time, and how far each update points away from it after the
second, without keeping the updates of all. What they trained is thrown away; clusters start
from the initial tensors. In a simulator the time of training is samples times epochs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor

from pfedul.base.tensors import Tensors
from pfedul.base.vectors import cosine, flat
from pfedul.clusters.layout import Clusters
from pfedul.protocol import Reply
from pfedul.server.round import run_round
from pfedul.store.paths import INIT_FILE

if TYPE_CHECKING:
    from pfedul.federation import Federation

_OPENING = 0
"""The number of the opening round: its draws are those of no other."""


def form_clusters(federation: Federation) -> Clusters:
    """The clusters of a federation that has not been trained."""
    # Imported here: it takes a while, and only runs with clusters need it.
    from pfedul.clusters.forming import Trait, assign, deviation

    cosines = _cosines(federation)
    epochs, members = federation.settings.local_epochs, federation.members
    traits = {
        client: Trait(members[client].train_samples * epochs, deviation(cosines.get(client, 0.0)))
        for client in federation.clients
    }
    return Clusters(federation.settings.clusters, assign(traits, federation.settings.clusters))


def _cosines(federation: Federation) -> dict[str, float]:
    """Of each client's first update with the mean of all."""
    initial = federation.store.read(INIT_FILE)
    found: dict[str, float] = {}

    def update(after: Tensors) -> Tensor:
        names = federation.bench.split.parameters
        return flat({name: after[name] - initial[name] for name in names}, names)

    mean = update(_opening_round(federation, initial, lambda _: None))

    def compare(reply: Reply) -> None:
        found[reply.client] = cosine(mean, update(reply.shared))

    _opening_round(federation, initial, compare)
    return found


def _opening_round(
    federation: Federation, initial: Tensors, keep: Callable[[Reply], None]
) -> Tensors:
    """All clients from the initial tensors; gives the mean."""
    return run_round(
        *(federation.engine, _OPENING, federation.clients, initial),
        *(federation.locate_personal, federation.rules(), keep),
    ).shared
