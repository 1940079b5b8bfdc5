"""KNOT: train in clusters, and train only the target's cluster again (Su and Li, INFOCOM 2023).

On a run that was trained with `--clusters` no tensor outside the target's cluster has seen the
target. Its cluster goes back to its shared tensors from before the target's first round and
repeats its rounds without it, each with those who took part in it then. All other clusters stay
as they are, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence

from pfedul.base.registry import NoOptions
from pfedul.base.tensors import Tensors
from pfedul.clusters.layout import last_checkpoint, read_checkpoint
from pfedul.errors import PfedulError
from pfedul.store.tables import first_round_of, participants_of, repaired_by
from pfedul.unlearn.base import About, Does, Method, Needs, Result
from pfedul.unlearn.context import Context
from pfedul.unlearn.training import TRAIN_SHARED, SharedTraining


def unlearn(ctx: Context, _options: NoOptions) -> Result:
    shared, notes = dict(ctx.shared), []
    for cluster, targets in ctx.clusters.groups(ctx.targets).items():
        number = _first(ctx, targets)
        if number is None:
            notes.append(f"{', '.join(targets)} took part in no round: nothing is trained again")
            continue
        start = ctx.record(last_checkpoint, cluster, number)
        own = _trained_again(ctx, cluster, start)
        shared = ctx.clusters.put(shared, cluster, own)
        notes.append(f"cluster {cluster} was trained again from round {start} on")
    return Result(shared, notes=tuple(notes))


def _first(ctx: Context, targets: Sequence[str]) -> int | None:
    """The first round that any of the targets took part in."""
    rounds = [ctx.history(first_round_of, target) for target in targets]
    return min((number for number in rounds if number is not None), default=None)


def _trained_again(ctx: Context, cluster: int, start: int) -> Tensors:
    """The cluster's shared tensors after all rounds from `start` on, without the targets."""
    members = ctx.clusters.groups(ctx.remaining).get(cluster, [])

    def step(number: int, before: Tensors) -> Tensors:
        clients, epochs = _round(ctx, start + number - 1, members)
        if not clients:
            return before
        return ctx.mean("train-shared", clients, before, SharedTraining(epochs))

    rounds = ctx.rounds - start + 1
    return ctx.steps(f"cluster-{cluster}", rounds, _before(ctx, cluster, start), step)


def _before(ctx: Context, cluster: int, number: int) -> Tensors:
    """The cluster's shared tensors as they were before a round."""
    if number == 1:
        return ctx.initial
    return ctx.record(read_checkpoint, cluster, number)


def _round(ctx: Context, number: int, members: Sequence[str]) -> tuple[list[str], int]:
    """Which of these clients took part in a round of the run, and for how many epochs."""
    replied = ctx.history(participants_of, number)
    repair = ctx.history(repaired_by, number) is not None
    epochs = 1 if repair else ctx.settings.local_epochs
    return [client for client in members if client in replied], epochs


def check(ctx: Context, _options: NoOptions) -> None:
    if not ctx.clusters.several:
        raise PfedulError(
            "The method 'knot' trains one cluster of clients again, and this run has none; "
            "train a run with --clusters 2 or more."
        )


KNOT = Method(
    name="knot",
    summary="train only the target's cluster again, on a run with --clusters",
    unlearn=unlearn,
    about=About(
        paper="Su, Li, INFOCOM 2023",
        who="the remaining clients of the target's cluster",
        rounds="as many as the cluster had since the target's first",
        memory="one model for each cluster, and for each round that brought it new members",
        guarantee=(
            "exact for other clusters, and without personal parts for the target's own, "
            "given who is in which cluster and who took part when"
        ),
        avoids=(
            "clients sent to the far cluster, as the published code maximises where the paper "
            "minimises; a mean over clusters, which belongs to nobody's personal part"
        ),
    ),
    needs=Needs(layout={"clusters": 2, "record": "none"}),
    does=Does(clusters=True),
    client=TRAIN_SHARED,
    check=check,
)
