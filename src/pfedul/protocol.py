"""What server and clients exchange: tasks, replies, and what an engine is."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from pfedul.aggregation.base import Share
from pfedul.base.device import device_of
from pfedul.base.tensors import Tensors
from pfedul.data.samples import ClientData
from pfedul.personalization import Job, LocalTraining, Personalization, Recalibration
from pfedul.split import Split

LocatePersonal = Callable[[str], Path | None]
"""The file of a client's personal tensors; None if it has none."""


class Engine(Protocol):
    """Decides where clients work, and nothing else.

    Replies come in the order of `clients`, whichever client finishes first, so the
    server computes the same from them with any engine. The tensors of a reply are
    valid until the next reply is requested. `in_process` says whether clients use
    this process's own CPU time.
    """

    in_process: bool

    def run(
        self, task: Task, clients: Sequence[str], shared: Tensors, locate_personal: LocatePersonal
    ) -> Generator[Reply, None, None]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Workbench:
    """Everything that a process needs to work for any client.

    `build_model` gives the model as it is before training, the same in every process, on the CPU;
    `working_model` the same on the device that this process computes on. `work`
    holds the client functions of unlearning methods by name. `random_split`: which of a client's
    samples are training and which test samples was drawn at random.
    """

    build_model: Callable[[], nn.Module]
    split: Split
    head: str | None
    personalization: Personalization
    options: Any
    training: LocalTraining
    data: Mapping[str, ClientData]
    seed: int
    work: Mapping[str, ClientWork] = field(default_factory=dict)
    random_split: bool = False
    device: str = "cpu"
    precision: str = "float32"

    def working_model(self) -> nn.Module:
        return self.build_model().to(device_of(self.device))


@dataclass(frozen=True)
class Task:
    """What clients are asked to do.

    `number` is the round or the request that it belongs to; the random stream depends on it.
    `epochs` and `rate` replace the local epochs and the learning rate of the settings, and `steps`
    bounds the batches of each phase of local training. `measured` also asks for the accuracy of
    the result, which saves a second message. `seed` replaces that of the settings, for other
    federations of the same clients. `how` holds the name and the options of a method's client
    function (action "work"). The random stream depends on `purpose` as well.
    """

    action: str
    number: int
    epochs: int | None = None
    recalibration: Recalibration | None = None
    measured: bool = False
    seed: int | None = None
    how: Mapping[str, Any] = field(default_factory=dict)
    purpose: str = ""
    steps: int | None = None
    rate: float | None = None


@dataclass(frozen=True)
class Reply:
    """What a client answers: tensors where the task makes any, and figures.

    A client that keeps its personal tensors to itself sends their SHA-256 (`held`)
    instead. A missing answer is a reply with `failure` set, whose other fields mean nothing.
    """

    client: str
    samples: int
    shared: Tensors = field(default_factory=dict)
    personal: Tensors = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    held: str | None = None
    failure: str | None = None


MEASURING, MEASURING_CPU = "measuring_seconds", "measuring_cpu_seconds"
"""Figures of a reply: wall and CPU seconds of an evaluation within another task."""


# What unlearning methods ask of clients


@dataclass(frozen=True)
class ClientResult:
    """What a client function of a method sends back; the personal part never changes."""

    tensors: Tensors
    metrics: Mapping[str, float] = field(default_factory=dict)


ClientWork = Callable[[Job, Mapping[str, Any], Tensors], ClientResult]
"""(the job, plain options, further tensors of the message) -> what the client sends back."""

EXTRA = "extra/"
"""Prefix of tensors that are sent with the shared ones and do not belong to the model."""


def with_extra(shared: Tensors, extra: Tensors) -> Tensors:
    """Shared tensors and further ones as one message.

    >>> sorted(with_extra({"w": 1}, {"w": 2}))
    ['extra/w', 'w']
    """
    return {**shared, **{EXTRA + name: tensor for name, tensor in extra.items()}}


def split_extra(tensors: Tensors) -> tuple[Tensors, Tensors]:
    """The inverse of `with_extra`."""
    own = {name: t for name, t in tensors.items() if not name.startswith(EXTRA)}
    extra = {name.removeprefix(EXTRA): t for name, t in tensors.items() if name not in own}
    return own, extra


@dataclass(frozen=True)
class Accepted:
    """A reply that went into the aggregate."""

    client: str
    samples: int
    loss: float
    update_norm: float
    cpu_seconds: float


@dataclass(frozen=True)
class Refusal:
    """A reply that was not used, and why; `silent`: there was none."""

    client: str
    reason: str
    silent: bool = False


Check = Callable[[Reply, str], str | None]
"""(a reply, the client that was asked) -> the reason to refuse the reply, or None."""

OnReply = Callable[[Reply], None]
OnRefusal = Callable[[Refusal], None]


@dataclass(frozen=True)
class Shortened:
    """An update that was longer than allowed, and was scaled down to that length."""

    client: str
    update_norm: float
    allowed: float


@dataclass
class RoundResult:
    """The result of a round: the new shared tensors and who took part.

    `shares` and `noise` are those of the aggregate (`pfedul.aggregation.base`).
    """

    number: int
    shared: Tensors
    accepted: list[Accepted] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    shortened: list[Shortened] = field(default_factory=list)
    shares: dict[str, Share] = field(default_factory=dict)
    noise: Tensors = field(default_factory=dict)

    @property
    def loss(self) -> float:
        """Mean training loss, weighted by samples; 0 if nobody took part."""
        total = sum(reply.samples for reply in self.accepted)
        return sum(reply.loss * reply.samples for reply in self.accepted) / max(1, total)


OnStage = Callable[[str, int, int], None]
"""Called with progress: the stage, how many clients of it are done, how many there are."""
