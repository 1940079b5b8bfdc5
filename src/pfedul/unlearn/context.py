"""What a method may use: the run at the request, its clients, and steps that survive a kill.

Everything that a method asks of clients goes through here, so that rounds, bytes
and CPU time are counted alike for all of them, replies are checked, and values that
are not finite end the method instead of entering the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from torch import Generator

from pfedul.at_client import with_extra
from pfedul.base.randomness import derive_seed
from pfedul.base.tensors import Tensors, size_in_bytes
from pfedul.errors import Hindrance, MethodFailed
from pfedul.protocol import Refusal, Reply, Task
from pfedul.records.uploads import last_upload
from pfedul.server.checks import check_layout, is_finite
from pfedul.server.mean import StreamingMean
from pfedul.store.paths import INIT_FILE
from pfedul.store.tables import refusal_rows
from pfedul.unlearn.notebook import Notebook
from pfedul.unlearn.outcome import StageCost

if TYPE_CHECKING:
    from pfedul.federation import Federation
    from pfedul.unlearn.options import ForgetOptions

Step = Callable[[int, Tensors], Tensors]
"""(number of the step, from 1; the state before it) -> the state after it."""


@dataclass
class Counts:
    """What a method has asked of the network so far."""

    rounds: int = 0
    bytes_broadcast: int = 0
    bytes_uploaded: int = 0


@dataclass
class Meter:
    """Wall and CPU seconds: of this process since it began, of workers, and from before a kill."""

    started: tuple[float, float] = field(
        default_factory=lambda: (time.perf_counter(), time.process_time())
    )
    elsewhere: float = 0.0
    before: StageCost = field(default_factory=StageCost)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What this process spends within the block is not counted."""
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            spent = time.perf_counter() - wall, time.process_time() - cpu
            self.started = self.started[0] + spent[0], self.started[1] + spent[1]

    def spent(self) -> StageCost:
        wall, cpu = time.perf_counter() - self.started[0], time.process_time() - self.started[1]
        return StageCost(self.before.seconds + wall, self.before.cpu_seconds + cpu + self.elsewhere)


@dataclass
class Work:
    """A request as its method sees it.

    Of the clients that it asked for something, `missed` were away and `refused` sent replies
    that could not be used.
    """

    federation: Federation
    targets: tuple[str, ...]
    remaining: tuple[str, ...]
    options: ForgetOptions
    request: int
    notebook: Notebook
    on_step: Callable[[str, int, int], None] = lambda _phase, _done, _of: None
    counts: Counts = field(default_factory=Counts)
    meter: Meter = field(default_factory=Meter)
    away: tuple[str, ...] = ()
    missed: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    phase: str = ""
    number: int = 0

    # What is known

    @property
    def shared(self) -> Tensors:
        """The shared tensors as they are at the request."""
        return self.federation.shared

    @property
    def initial(self) -> Tensors:
        """The shared tensors before training."""
        return self.federation.store.read(INIT_FILE)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the shared parameters, of a tied one the first: what norms and directions
        are over. Whoever changes them goes through `agreeing` afterwards.
        """
        return self.federation.bench.split.parameters

    @cached_property
    def trained(self) -> tuple[str, ...]:
        """Those of them that the model's author did not freeze."""
        model = self.federation.bench.build_model()
        moving = {name for name, p in model.named_parameters() if p.requires_grad}
        return tuple(name for name in self.parameters if name in moving)

    def agreeing(self, shared: Tensors) -> Tensors:
        """The same tensors, a tied one with the value of its first name under all its names."""
        return self.federation.bench.split.agreeing(shared)

    @property
    def seed(self) -> int:
        """That of the run, unless the request brings one of its own."""
        asked = self.options.seed
        return self.federation.settings.seed if asked is None else asked

    def samples(self, client: str) -> int:
        """How many a client trains on: its weight in every mean."""
        return self.federation.members[client].train_samples

    def last_upload(self, client: str) -> tuple[int, Tensors] | None:
        """The round of a client's last upload and its shared tensors, statistics included.

        From the record 'uploads'; None of a client that took part in no round since it began.
        """
        return last_upload(self.federation.store, client)

    def generator(self, purpose: str) -> Generator:
        """The server's own random stream for one purpose."""
        return Generator().manual_seed(derive_seed(self.seed, "unlearn", self.request, purpose))

    # Asking clients

    def ask(
        self,
        what: str,
        clients: Sequence[str],
        shared: Tensors,
        how: Any = None,
        extra: Tensors | None = None,
        same_round: bool = False,
    ) -> Iterator[Reply]:
        """Let clients do a work of `pfedul.at_client`: one global round; sound replies come back.

        `how` is its frozen dataclass of options (or a mapping), `extra` are tensors to send
        along. `same_round`: other clients have been asked for something else in this round.
        The tensors of a reply last until the next one is asked for.
        """
        message, clients = with_extra(shared, extra or {}), self._present(clients)
        task = Task(
            "work",
            self.number,
            seed=self.options.seed,
            how={**_plain(how), "what": what},
            purpose=f"request {self.request} {self.options.method} {self.phase}",
        )
        self.counts.rounds += not same_round
        self.counts.bytes_broadcast += size_in_bytes(message) * len(clients)
        engine = self.federation.engine
        answered = silent = 0
        locate = self.federation.locate_personal
        with closing(engine.run(task, clients, message, locate)) as replies:
            for client, reply in zip(clients, replies, strict=True):
                silent += reply.failure is not None
                if not engine.in_process:
                    self.meter.elsewhere += reply.cpu_seconds
                layout = shared if what == "train-shared" else None
                if self._sound(client, reply, layout):
                    answered += 1
                    self.counts.bytes_uploaded += size_in_bytes(reply.shared)
                    yield reply
        if not answered:
            kind = Hindrance if silent == len(clients) else MethodFailed
            raise kind(
                f"The method '{self.name}' had no usable answer from any of "
                f"{', '.join(clients)}; see 'pfedul status'."
            )

    def mean(
        self,
        what: str,
        clients: Sequence[str],
        shared: Tensors,
        how: Any = None,
        extra: Tensors | None = None,
    ) -> Tensors:
        """The weighted mean of what clients send back."""
        total: StreamingMean | None = None
        for reply in self.ask(what, clients, shared, how, extra):
            total = total or StreamingMean(dict(reply.shared))
            total.add(reply.shared, reply.samples)
        assert total is not None
        return self.finite(total.result())

    def _present(self, clients: Sequence[str]) -> list[str]:
        """Those of the clients who are there; the others are remembered."""
        there = [client for client in clients if client not in self.away]
        self.missed |= set(clients) - set(there)
        if not there:
            raise Hindrance(
                f"The method '{self.name}' asks {', '.join(clients)}, of whom all are away; "
                "try again when one of them is there."
            )
        return there

    def _sound(self, client: str, reply: Reply, layout: Tensors | None) -> bool:
        reason = reply.failure or (
            None if reply.client == client else f"the reply is in the name of {reply.client}"
        )
        if reason is None and layout is not None:
            reason = check_layout("shared", reply.shared, layout)
        if reason is None and reply.samples != self.samples(client):
            reason = f"reports {reply.samples} samples where {self.samples(client)} are registered"
        if reason is not None:
            rows = refusal_rows(self.federation.rounds, [Refusal(client, reason)])
            self.federation.store.ledger.write(rows)
            self.refused.add(client)
            return False
        self.finite(reply.shared)
        return True

    def left_out(self) -> tuple[str, ...]:
        """Notes on how many clients' part in the method is missing.

        Not whose: an outcome stays when one of them is forgotten in turn.
        """
        notes = []
        if self.missed:
            notes.append(f"{_clients(self.missed)} away, and left out by the method")
        if self.refused:
            notes.append(
                f"of {_clients(self.refused)} replies were refused during the method, which did "
                "without them ('pfedul status' lists them)"
            )
        return tuple(notes)

    @property
    def name(self) -> str:
        """Of the method, without its options."""
        return self.options.method.partition(":")[0]

    def finite(self, tensors: Tensors) -> Tensors:
        """The very same tensors, or the end of the method."""
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not is_finite(tensor):
                raise MethodFailed(
                    f"The method '{self.name}' diverged: '{name}' has values that are not finite. "
                    "The run is as it was; try smaller steps, or another method."
                )
        return tensors

    # Steps that survive a kill

    def steps(self, phase: str, total: int, state: Tensors, step: Step) -> Tensors:
        """The state after `total` steps of a phase; those that were done before a kill are not
        done again.

        A state is any dictionary of tensors, and must hold all that later steps depend on.
        """
        self.phase, done = phase, 0
        noted = self.notebook.read(phase)
        if noted is not None:
            done, state, facts = noted
            self._recall(facts)
        self.on_step(phase, done, total)
        for number in range(done + 1, total + 1):
            self.number = number
            state = self.finite(step(number, state))
            self.notebook.write(phase, number, state, self._facts(), last=number == total)
            self.on_step(phase, number, total)
        self.number = 0
        return state

    def _facts(self) -> dict[str, Any]:
        return {
            "counts": asdict(self.counts),
            "cost": asdict(self.meter.spent()),
            "missed": sorted(self.missed),
            "refused": sorted(self.refused),
        }

    def _recall(self, facts: Mapping[str, Any]) -> None:
        self.counts = Counts(**facts["counts"])
        self.meter.before = StageCost(**facts["cost"])
        self.missed |= set(facts["missed"])
        self.refused |= set(facts["refused"])


def _clients(found: Collection[str]) -> str:
    """
    >>> _clients({"ann"}), _clients({"ann", "bob"})
    ('1 client', '2 clients')
    """
    return f"{len(found)} client{'' if len(found) == 1 else 's'}"


def _plain(how: Any) -> dict[str, Any]:
    if how is None:
        return {}
    return asdict(how) if is_dataclass(how) and not isinstance(how, type) else dict(how)
