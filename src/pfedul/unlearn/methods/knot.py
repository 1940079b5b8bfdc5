"""KNOT: train in clusters, and train only the target's cluster again (Su and Li, INFOCOM 2023).

A training layout more than a way to unlearn: on a run that was trained with `--clusters`
no tensor outside the target's cluster has seen the target. Its cluster goes back to its
shared tensors from before the target's first round and repeats its rounds without it,
each with those who took part in it then. All other clusters stay as they are, bit for bit.

The paper's rounds are asynchronous and end in one model: a mean over clusters, or in the
published code the best of them. Here rounds are synchronous and every client keeps its
own cluster's tensors, as its personal part belongs to them. Personal parts stand
still while their cluster is trained again, as for every other method. So is the assignment
kept, which the target had a part in.
"""

from __future__ import annotations

from collections.abc import Sequence

from pfedul.at_client import SharedTraining
from pfedul.base.registry import NoOptions
from pfedul.base.tensors import Tensors
from pfedul.clusters.layout import first_round, last_checkpoint
from pfedul.errors import PfedulError
from pfedul.store.paths import checkpoint_file
from pfedul.unlearn.base import Method, Result
from pfedul.unlearn.context import Work


def unlearn(work: Work, _options: NoOptions) -> Result:
    shared, notes = dict(work.shared), []
    for cluster, targets in work.federation.clusters.groups(work.targets).items():
        number = _first(work, targets)
        if number is None:
            notes.append(f"{', '.join(targets)} took part in no round: nothing is trained again")
            continue
        start = last_checkpoint(work.federation.store, cluster, number)
        own = _trained_again(work, cluster, start)
        shared = work.federation.clusters.put(shared, cluster, own)
        notes.append(f"cluster {cluster} was trained again from round {start} on")
    return Result(shared, notes=tuple(notes))


def _first(work: Work, targets: Sequence[str]) -> int | None:
    """The first round that any of the targets took part in."""
    rounds = [first_round(work.federation.store, target) for target in targets]
    return min((number for number in rounds if number is not None), default=None)


def _trained_again(work: Work, cluster: int, start: int) -> Tensors:
    """The cluster's shared tensors after all rounds from `start` on, without the targets."""
    members = work.federation.clusters.groups(work.remaining).get(cluster, [])

    def step(number: int, before: Tensors) -> Tensors:
        clients, epochs = _round(work, start + number - 1, members)
        if not clients:
            return before
        return work.mean("train-shared", clients, before, SharedTraining(epochs))

    rounds = work.federation.rounds - start + 1
    return work.steps(f"cluster-{cluster}", rounds, _before(work, cluster, start), step)


def _before(work: Work, cluster: int, number: int) -> Tensors:
    """The cluster's shared tensors as they were before a round."""
    if number == 1:
        return work.initial
    return work.federation.store.read(checkpoint_file(cluster, number))


def _round(work: Work, number: int, members: Sequence[str]) -> tuple[list[str], int]:
    """Which of these clients took part in a round of the run, and for how many epochs.

    A round that repaired an earlier removal had one.
    """
    ledger = work.federation.store.ledger
    rows = ledger.rows("SELECT client FROM replies WHERE round = ?", number)
    replied = {row["client"] for row in rows}
    repair = ledger.value("SELECT request FROM rounds WHERE round = ?", number) is not None
    epochs = 1 if repair else work.federation.settings.local_epochs
    return [client for client in members if client in replied], epochs


def check(work: Work, _options: NoOptions) -> None:
    if not work.federation.clusters.several:
        raise PfedulError(
            "The method 'knot' trains one cluster of clients again, and this run has none; "
            "train a run with --clusters 2 or more."
        )


KNOT = Method(
    name="knot",
    summary="train only the target's cluster again, on a run with --clusters",
    paper="Su, Li, INFOCOM 2023",
    unlearn=unlearn,
    memory="one model for each cluster, and for each round that brought it new members",
    who="the remaining clients of the target's cluster",
    rounds="as many as the cluster had since the target's first",
    guarantee="exact for other clusters, and without personal parts for the target's own, "
    "given who is in which cluster and who took part when",
    avoids="clients sent to the far cluster, as the published code maximises where the paper "
    "minimises; a mean over clusters, which belongs to nobody's personal part",
    clustered=True,
    layout={"clusters": 2, "record": "none"},
    check=check,
)
