"""The shared model alone, where personal models do not contain it (Ditto).

There a method that only changes the shared tensors leaves every personal model as it was, so PPS
and CFI are 1 whatever it did. The accuracy of the shared model shows what it did.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from statistics import fmean
from typing import TYPE_CHECKING

from pfedul.base.tensors import Tensors
from pfedul.protocol import Task
from pfedul.server.checks import check_figures
from pfedul.split import Split

if TYPE_CHECKING:
    from pfedul.federation import Federation as Run


def stands_alone(split: Split) -> bool:
    """Whether the shared tensors are a whole model, and each client has another of its own."""
    return bool(split.personal) and set(split.shared) <= set(split.personal)


def shared_accuracy(
    run: Run, clients: Sequence[str], shared: Tensors | None = None
) -> float | None:
    """Mean accuracy of the shared model over these clients, each on its own test samples.

    `shared` are tensors in the place of the run's. None where the personal models contain the
    shared tensors, and for a client on its own machine, which answers with its personal model.
    """
    if not stands_alone(run.bench.split) or run.personal_place.at_clients:
        return None
    task, tensors = Task("evaluate", run.rounds), run.shared if shared is None else shared
    with closing(run.engine.run(task, clients, tensors, lambda _client: None)) as replies:
        sound = [
            reply.metrics["accuracy"]
            for client, reply in zip(clients, replies, strict=True)
            if check_figures(reply, client, run.members[client].test_samples) is None
        ]
    return fmean(sound) if sound else None
