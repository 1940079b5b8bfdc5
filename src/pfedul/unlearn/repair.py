"""Repair: rounds on the shared part, between the result of a method and recalibration.

Each remaining client trains the shared tensors for one epoch through its own old personal part,
which stays as it is; the rate follows one cosine over all rounds. 'ordinary' rounds learn from
the labels alone. 'distil' adds each client's own old model as a teacher (distil.py): its shared
tensors travel with every round. Each round is a step of the notebook.

Where the record of contributions goes on, it must stay true: what each client's updates add to the
shared parameters is kept beside the notes, one file for each round and client, and is added to
the record by the commit (`Repair.added`).
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from pfedul.aggregation.mean import StreamingMean
from pfedul.base.names import DISTIL, ORDINARY
from pfedul.base.tensors import Tensors, wide_type
from pfedul.base.text import counted
from pfedul.errors import MethodFailed, TransientError
from pfedul.protocol import Reply
from pfedul.records.base import changes, int_tensor
from pfedul.server.shortening import bounded
from pfedul.unlearn.context import Context
from pfedul.unlearn.training import SharedTraining

REPAIR = "repair"
"""The stage of a removal, and the phase of its notes."""

_WORK = {ORDINARY: "train-shared", DISTIL: "distil-shared"}


@dataclass(frozen=True)
class Repair:
    """The repair rounds of one request; `recorded`: the record of contributions goes on.

    `clients` are asked, as far as they are there.
    """

    ctx: Context
    clients: Sequence[str]
    rounds: int
    kind: str
    recorded: bool = False

    def repaired(self, start: Tensors) -> Tensors:
        """The shared tensors after all rounds."""
        try:
            return self.ctx.steps(REPAIR, self.rounds, start, self._round)
        except TransientError as error:
            raise TransientError(
                f"{error} Ask again when they answer, or leave repair out: --repair-rounds 0."
            ) from error
        except MethodFailed as error:
            way = "" if self.kind == ORDINARY else "--repair ordinary or "
            raise MethodFailed(
                f"{error} It failed in the repair rounds: say {way}--repair-rounds 0."
            ) from error

    def _round(self, number: int, before: Tensors) -> Tensors:
        """One round of every cluster; files of an interrupted attempt at it are deleted."""
        ctx, after = self.ctx, before
        shutil.rmtree(ctx.notebook.folder / _place(number), ignore_errors=True)
        groups = ctx.clusters.groups(ctx.present(self.clients))
        for cluster, group in groups.items():
            own = self._mean(number, cluster, group, before, same_round=cluster > min(groups))
            after = ctx.clusters.put(after, cluster, own)
        return after

    def _mean(
        self, number: int, cluster: int, clients: Sequence[str], shared: Tensors, same_round: bool
    ) -> Tensors:
        """The mean of what the clients of a cluster send; a teacher goes with the task."""
        ctx, view = self.ctx, self.ctx.clusters.view
        before, mean = view(shared, cluster), StreamingMean(view(shared, cluster))
        teacher = view(ctx.shared, cluster) if self.kind == DISTIL else {}
        how, what = SharedTraining(part=number, parts=self.rounds, by_batch=True), _WORK[self.kind]
        samples = 0
        for reply in ctx.ask(what, clients, before, how, teacher, same_round=same_round):
            reply = bounded(reply, before, self.ctx.parameters, ctx.run.longest_update())
            mean.add(reply.shared, reply.samples)
            samples += reply.samples
            if self.recorded:
                self._keep(number, reply, before)
        if self.recorded:
            ctx.notebook.keep(_total(number, cluster), {"samples": int_tensor(samples)})
        return mean.result()

    def _keep(self, number: int, reply: Reply, before: Tensors) -> None:
        """The client's update, times its samples: how many replies count is not yet known."""
        moved = changes(before, reply.shared, self.ctx.parameters)
        weighted = {n: (t * reply.samples).to(wide_type(before[n])) for n, t in moved.items()}
        self.ctx.notebook.keep(f"{_place(number)}/{reply.client}", weighted)

    def added(self, client: str) -> Tensors:
        """What a client's updates added to the shared parameters, in double precision.

        Empty for a client that took part in no repair round, or without a record.
        """
        notebook, total = self.ctx.notebook, Tensors()
        cluster = self.ctx.clusters.number(client)
        for number in range(1, self.rounds + 1) if self.recorded else ():
            moved = notebook.kept(f"{_place(number)}/{client}") or {}
            samples = notebook.kept(_total(number, cluster)) or {}
            for name, tensor in moved.items():
                share = tensor.double() / samples["samples"]
                total[name] = total[name] + share if name in total else share
        return total


def statement(rounds: int, kind: str, excluded: bool) -> str:
    """What holds after repair rounds; `excluded`: nothing of the targets was in their start."""
    words = _TAUGHT if kind == DISTIL else _STILL_EXCLUDED if excluded else _LABELS
    return f"{counted(rounds, f'{kind} repair round')}: {words}"


def _place(number: int) -> str:
    return f"{REPAIR}-{number}"


def _total(number: int, cluster: int) -> str:
    """Where the samples of all clients of a cluster are kept, added up."""
    return f"{_place(number)}-samples-{cluster}"


_LABELS = "the remaining clients' own data, through their own old personal parts"
_STILL_EXCLUDED = (
    f"{_LABELS}; the repaired shared parameters are still a function of the initial tensors and "
    "the remaining clients' own updates, personal parts and data alone"
)
_TAUGHT = (
    "the teachers are the remaining clients' own old models, which knew the targets: what is said "
    "of the corrected shared parameters does not hold of the repaired ones"
)
