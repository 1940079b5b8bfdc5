"""The shared model alone, where personal models do not contain it (Ditto).

There a method that only changes the shared tensors leaves every personal model as it was, so PPS
and CFI are 1 whatever it did. The accuracy of the shared model shows what it did.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from pfedul.base.tensors import Tensors
from pfedul.protocol import Reply, Task
from pfedul.run.run import Run
from pfedul.server.checks import check_figures
from pfedul.server.round import ask_clients
from pfedul.split import Split


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

    def check(reply: Reply, client: str) -> str | None:
        return check_figures(reply, client, run.members[client].test_samples)

    task, tensors = Task("evaluate", run.rounds), run.shared if shared is None else shared
    replies = ask_clients(run.engine, lambda _client: None, task, clients, tensors, check)
    accuracies = [reply.metrics["accuracy"] for reply in replies]
    return fmean(accuracies) if accuracies else None
