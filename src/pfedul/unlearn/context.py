"""What a method sees: the run at the time of the request, its clients, and resumable steps.

Everything that a method asks of clients goes through `Context.ask`. There rounds, bytes and CPU
time are counted in the same way for all methods, and replies are checked. Values that are not
finite end the method and never enter the run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import cached_property
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import nn

from pfedul.aggregation.mean import StreamingMean
from pfedul.base.inputs import Inputs
from pfedul.base.randomness import derive_seed
from pfedul.base.tensors import Tensors, size_in_bytes
from pfedul.clusters.layout import Clusters
from pfedul.data.samples import Samples
from pfedul.errors import PfedulError, TransientError
from pfedul.personalization import Recalibration
from pfedul.protocol import OnStage, Refusal, Reply, Task, with_extra
from pfedul.records import RECORDS
from pfedul.records.base import kind_of
from pfedul.run.assembly import reseeded
from pfedul.run.run import Run
from pfedul.server.checks import (
    check_finite,
    check_work,
    is_finite,
)
from pfedul.settings import Settings
from pfedul.split import Split
from pfedul.store.ledger import Ledger
from pfedul.store.paths import INIT_FILE
from pfedul.store.store import Store
from pfedul.unlearn.account import Account
from pfedul.unlearn.agreement import diverged, without_answers
from pfedul.unlearn.notebook import Notebook

Step = Callable[[int, Tensors], Tensors]
"""(number of the step, from 1; the state before it) -> the state after it."""

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Context:
    """A request as its method sees it. Everything but the account is read-only.

    `run` is only for methods that train a run of their own. `spec` is the method with its
    options, as the user wrote it. `request_seed` is None if the request has no seed of its own.
    `recalibration` is how remaining clients recalibrate.
    """

    run: Run
    targets: tuple[str, ...]
    remaining: tuple[str, ...]
    request: int
    spec: str
    notebook: Notebook
    recalibration: Recalibration = field(default_factory=Recalibration)
    request_seed: int | None = None
    away: tuple[str, ...] = ()
    on_step: OnStage = lambda _phase, _done, _of: None
    account: Account = field(default_factory=Account)

    # The run

    @property
    def name(self) -> str:
        """The method's name, without its options."""
        return self.spec.partition(":")[0]

    @property
    def settings(self) -> Settings:
        return self.run.settings

    @property
    def rounds(self) -> int:
        """How many rounds the run has had."""
        return self.run.rounds

    @property
    def shared(self) -> Tensors:
        """The shared tensors as they are at the request."""
        return self.run.shared

    @property
    def initial(self) -> Tensors:
        """The shared tensors before training."""
        return self.run.store.read(INIT_FILE)

    @property
    def clusters(self) -> Clusters:
        return self.run.clusters

    @property
    def split(self) -> Split:
        """What is shared and what is personal."""
        return self.run.bench.split

    @property
    def seed(self) -> int:
        """The seed of the request, or else of the run."""
        return self.settings.seed if self.request_seed is None else self.request_seed

    @property
    def head(self) -> str | None:
        """Name of the model's head, where the personalisation needs one."""
        return self.run.bench.head

    def model(self) -> nn.Module:
        """A new model as it is before training."""
        return self.run.bench.build_model()

    def random_model(self, seed: int) -> nn.Module:
        """A new model with other initial weights."""
        return reseeded(self.run.bench, seed, ()).build_model()

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the shared parameters, a tied one under its first name only.

        Norms and directions are computed over these. After changing them call `tied`.
        """
        return self.split.parameters

    @cached_property
    def trained(self) -> tuple[str, ...]:
        """The shared parameters that the model's author did not freeze."""
        moving = {name for name, p in self.model().named_parameters() if p.requires_grad}
        return tuple(name for name in self.parameters if name in moving)

    def tied(self, shared: Tensors) -> Tensors:
        """The same tensors; a tied one has the value of its first name under all its names."""
        return self.split.agreeing(shared)

    def samples(self, client: str) -> int:
        """The number of a client's training samples, which is its weight in every mean."""
        return self.run.members[client].train_samples

    def generator(self, purpose: str) -> torch.Generator:
        """The server's own random stream for one purpose."""
        return torch.Generator().manual_seed(
            derive_seed(self.seed, "unlearn", self.request, purpose)
        )

    # Data and tensors of clients: only for methods that need clients on this machine

    def personal(self, client: str) -> Tensors:
        """A client's personal tensors."""
        return self.run.personal(client)

    def train_samples(self, client: str) -> Samples:
        """A client's training samples."""
        return self.run.bench.data[client].train

    def an_input(self) -> Inputs | None:
        """An input of the right shape; its values do not matter. None if no shape is known."""
        for data in self.run.bench.data.values():
            return data.train.batch(torch.zeros(1, dtype=torch.int64, device="cpu"))[0]
        shape = self.run.store.ledger.meta("input_shape")
        return None if shape is None else torch.zeros(1, *json.loads(shape), device="cpu")

    # Records and history

    def record(self, read: Callable[Concatenate[Store, P], T], *args: P.args, **how: P.kwargs) -> T:
        """What `read`, a reading function of `pfedul.records`, returns for the run's record."""
        return read(self.run.store, *args, **how)

    def history(
        self, read: Callable[Concatenate[Ledger, P], T], *args: P.args, **how: P.kwargs
    ) -> T:
        """What `read`, a reading function of `pfedul.store.tables`, returns for the ledger."""
        return read(self.run.store.ledger, *args, **how)

    def require_record(self, kind: str) -> None:
        """Raise if an earlier removal erased the record."""
        if not any(kind_of(name) == kind for name in self.run.store.names("records/")):
            raise PfedulError(
                f"The {RECORDS[kind].title} record, which the method '{self.name}' needs, was "
                "erased with an earlier request; train on to build a new one."
            )

    # Asking clients

    def ask(
        self,
        what: str,
        clients: Sequence[str],
        shared: Tensors,
        how: Any = None,
        extra: Tensors | None = None,
        *,
        like: Tensors | None = None,
        same_round: bool = False,
    ) -> Iterator[Reply]:
        """Let clients run a client function of a method: one global round; yields valid replies.

        `how` is its frozen dataclass of options (or a mapping). `extra` are tensors to send
        along. The tensors of a reply must have the names, shapes and types of `like` (default:
        the shared tensors). `same_round`: this belongs to the round of the previous call.
        The tensors of a reply are valid until the next reply is requested.
        """
        message, present = with_extra(shared, extra or {}), self.present(clients)
        counts, refusals = self.account.counts, list[Refusal]()
        counts.rounds += not same_round
        counts.bytes_broadcast += size_in_bytes(message) * len(present)
        task, layout = self._task(what, how), shared if like is None else like
        with closing(self._replies(task, present, message, layout, refusals)) as replies:
            for reply in replies:
                counts.bytes_uploaded += size_in_bytes(reply.shared)
                yield reply
        if len(refusals) == len(present):
            raise without_answers(self.name, clients, self.targets, refusals)

    def _replies(
        self,
        task: Task,
        clients: Sequence[str],
        message: Tensors,
        like: Tensors,
        refusals: list[Refusal],
    ) -> Generator[Reply, None, None]:
        """Valid replies; refusals are written into the ledger and added to `refusals`."""

        def check(reply: Reply, client: str) -> str | None:
            return check_work(reply, client, self.samples(client), like) or check_finite(reply)

        def refuse(refusal: Refusal) -> None:
            refusals.append(refusal)
            self.run.note_refusal(refusal)
            self.account.refused.add(refusal.client)

        return self.run.ask(task, clients, message, check, on_reply=self._book, on_refusal=refuse)

    def _task(self, what: str, how: Any) -> Task:
        return Task(
            "work",
            self.account.number,
            seed=self.request_seed,
            how={**_plain(how), "what": what},
            purpose=f"request {self.request} {self.spec} {self.account.phase}",
        )

    def _book(self, reply: Reply) -> None:
        self.account.meter.elsewhere += self.run.cpu_elsewhere(reply)

    def mean(
        self,
        what: str,
        clients: Sequence[str],
        shared: Tensors,
        how: Any = None,
        extra: Tensors | None = None,
        *,
        like: Tensors | None = None,
    ) -> Tensors:
        """The weighted mean of what clients send back."""
        total: StreamingMean | None = None
        for reply in self.ask(what, clients, shared, how, extra, like=like):
            total = total or StreamingMean(dict(reply.shared))
            total.add(reply.shared, reply.samples)
        assert total is not None
        return self.finite(total.result())

    def present(self, clients: Sequence[str]) -> list[str]:
        """The clients that are not away; the account remembers the others."""
        there = [client for client in clients if client not in self.away]
        self.account.missed |= set(clients) - set(there)
        if not there:
            raise TransientError(
                f"The method '{self.name}' asks {', '.join(clients)}, and all of them are away; "
                "try again when one of them is there."
            )
        return there

    def finite(self, tensors: Tensors) -> Tensors:
        """Return the tensors as they are; raise if a value is not finite."""
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not is_finite(tensor):
                raise diverged(self.name, f"'{name}'")
        return tensors

    # Steps that survive a kill

    def steps(self, phase: str, total: int, state: Tensors, step: Step) -> Tensors:
        """The state after `total` steps of a phase; resumes after the last saved step.

        A state is any dictionary of tensors. It must hold everything that later steps depend on.
        """
        account, done = self.account, 0
        account.phase = phase
        saved = self.notebook.read(phase)
        if saved is not None:
            done, state, facts = saved
            account.resume(facts)
        self.on_step(phase, done, total)
        for number in range(done + 1, total + 1):
            account.number = number
            state = self.finite(step(number, state))
            self.notebook.write(phase, number, state, account.as_facts(), last=number == total)
            self.on_step(phase, number, total)
        account.number = 0
        return state


def never_took_part(clients: Sequence[str]) -> tuple[str, ...]:
    """A note about targets without a record; empty if all have one."""
    if not clients:
        return ()
    return (f"{', '.join(clients)}: took part in no round since the record began",)


def _plain(how: Any) -> dict[str, Any]:
    if how is None:
        return {}
    return asdict(how) if is_dataclass(how) and not isinstance(how, type) else dict(how)
